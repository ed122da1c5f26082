# Translated from a definition file.

FROM scratch AS sluice-post-1
COPY <<'END__' /post
  echo one
  END
  END_
  echo two
END__

FROM registry.test:5000/team/project/image:1 AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-post-1,target=/dev/sluice ["/bin/sh","-c","mkdir -p /.singularity.d/env && cd / && export APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh && exec \"$@\"","sh","/bin/sh","-ex","-o","pipefail","/dev/sluice/post"]
