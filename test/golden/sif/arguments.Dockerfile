# Translated from a definition file.

FROM scratch AS sluice-post-1
COPY <<'END' /post
  #!Jane=Doe
  # {{ UNDEFINED }}
  echo "hi, Jane=Doe" Jane=Doe # {{ NAME }}
  echo ${HOME} {{}} {{ a b }}

END

FROM debian:12 AS sluice-stage-1
COPY ["Jane=Doe.txt","/opt/Jane=Doe.txt"]
USER 0
RUN --mount=type=bind,from=sluice-post-1,target=/dev/sluice ["/bin/sh","-c","mkdir -p /.singularity.d/env && cd / && export APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh && exec \"$@\"","sh","/bin/sh","-ex","/dev/sluice/post"]
