# Translated from a definition file.

FROM scratch AS sluice-post-1
COPY <<'END' /post
  echo "lines of another system"
  printf "a\\r"
END

FROM debian:12 AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-post-1,target=/dev/sluice ["/bin/sh","-c","mkdir -p /.singularity.d/env && cd / && export APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh && exec \"$@\"","sh","/bin/sh","-ex","/dev/sluice/post"]
