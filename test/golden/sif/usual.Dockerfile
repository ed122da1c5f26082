# Translated from a definition file.

FROM scratch AS sluice-post-1
COPY <<'END' /post
    apt-get update && apt-get install -y netcat
    NOW=`date`
    echo "export NOW=\"${NOW}\"" >> $SINGULARITY_ENVIRONMENT

END

FROM ubuntu:24.04 AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-post-1,target=/dev/sluice ["/bin/sh","-c","mkdir -p /.singularity.d/env && cd / && export APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh && exec \"$@\"","sh","/bin/sh","-ex","/dev/sluice/post"]
