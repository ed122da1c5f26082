# Translated from a definition file.

FROM scratch AS sluice-scripts-1
COPY <<'END' /prepare
for sluice_item in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
    case ":$PATH:" in
        *":$sluice_item:"*) ;;
        *) PATH="${PATH:+$PATH:}$sluice_item" ;;
    esac
done
export PATH
mkdir -p /.singularity.d/actions /.singularity.d/env /.singularity.d/libs
sluice_item=/.singularity.d/env/90-environment.sh
if [ ! -e $sluice_item ]; then
    echo '#!/bin/sh' >$sluice_item
    chmod 755 $sluice_item
fi
if [ ! -e /environment ] && [ ! -h /environment ]; then
    ln -s .singularity.d/env/90-environment.sh /environment
fi
chmod 1777 /tmp /var/tmp
for sluice_item in /.singularity.d/env/*.sh; do
    if [ -f "$sluice_item" ]; then . "$sluice_item"; fi
done
APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh
SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh
APPTAINER_LABELS=/.build.labels
SINGULARITY_LABELS=/.build.labels
export APPTAINER_ENVIRONMENT SINGULARITY_ENVIRONMENT APPTAINER_LABELS SINGULARITY_LABELS
unset sluice_item
cd / && exec "$@"
END
COPY <<'END' /post
  #!Jane=Doe
  # {{ UNDEFINED }}
  echo "hi, Jane=Doe" Jane=Doe # {{ NAME }}
  echo ${HOME} {{}} {{ a b }}

END

FROM debian:12 AS sluice-base-1
COPY ["Jane=Doe.txt","/opt/Jane=Doe.txt"]

FROM sluice-base-1 AS sluice-tmp-1
WORKDIR /tmp
WORKDIR /var/tmp

FROM sluice-base-1 AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice --mount=type=bind,from=sluice-tmp-1,source=/tmp,target=/tmp,rw --mount=type=bind,from=sluice-tmp-1,source=/var/tmp,target=/var/tmp,rw ["/bin/sh","/dev/sluice/prepare","/bin/sh","-ex","/dev/sluice/post"]
