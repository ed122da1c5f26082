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
    apt-get update && apt-get install -y netcat
    NOW=`date`
    echo "export NOW=\"${NOW}\"" >> $SINGULARITY_ENVIRONMENT

END
COPY <<'END' /environment
    export LISTEN_PORT=54321
    export LC_ALL=C

END
COPY <<'END' /try
if [ -z "$sluice_shell" ] && [ -x /bin/bash ]; then
    sluice_shell=bash exec /bin/bash /dev/sluice/try
fi
unset sluice_shell
if [ -z "$BASH_VERSION" ]; then
    alias .='command .' source='command .'
fi
mkdir -p /.singularity.d/env
: >>/.singularity.d/env/90-environment.sh
for sluice_item in /.singularity.d/env/*.sh; do
    if [ -f "$sluice_item" ]; then . "$sluice_item"; fi
    case $sluice_item in
        */90-environment.sh) [ ! -f /dev/sluice/environment ] || . /dev/sluice/environment ;;
    esac
done
unset sluice_item
cd / && exec /dev/sluice/test
END
COPY --chmod=755 <<'END' /test
#!/bin/sh

    grep -q NAME=\"Ubuntu\" /etc/os-release

END

FROM ubuntu:24.04 AS sluice-base-1

FROM sluice-base-1 AS sluice-tmp-1
WORKDIR /tmp
WORKDIR /var/tmp

FROM sluice-base-1 AS sluice-built-1
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice --mount=type=bind,from=sluice-tmp-1,source=/tmp,target=/tmp,rw --mount=type=bind,from=sluice-tmp-1,source=/var/tmp,target=/var/tmp,rw ["/bin/sh","/dev/sluice/prepare","/bin/sh","-ex","/dev/sluice/post"]

FROM sluice-built-1 AS sluice-test-1
WORKDIR /.singularity.d/tested
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice ["/bin/sh","/dev/sluice/try"]

FROM sluice-built-1 AS sluice-stage-1
COPY --from=sluice-test-1 ["/.singularity.d/tested/","/.singularity.d/"]
