# Translated from a definition file.

FROM scratch AS sluice-apps-1
WORKDIR /scif/apps/count/bin
WORKDIR /scif/apps/count/lib
WORKDIR /scif/data/count/input
WORKDIR /scif/data/count/output
WORKDIR /scif/apps/other-app/bin
WORKDIR /scif/apps/other-app/lib
WORKDIR /scif/data/other-app/input
WORKDIR /scif/data/other-app/output
COPY --chmod=755 <<'END' /scif/apps/count/scif/env/01-base.sh
#!/bin/sh
SCIF_APPNAME=count
SCIF_APPROOT=/scif/apps/count
SCIF_APPMETA=/scif/apps/count/scif
SCIF_DATA=/scif/data
SCIF_APPDATA=/scif/data/count
SCIF_APPINPUT=/scif/data/count/input
SCIF_APPOUTPUT=/scif/data/count/output
export SCIF_APPNAME SCIF_APPROOT SCIF_APPMETA SCIF_DATA SCIF_APPDATA SCIF_APPINPUT SCIF_APPOUTPUT
END
COPY --chmod=755 <<'END' /scif/apps/count/scif/env/90-environment.sh
    export START=1
END
COPY --chmod=755 <<'END' /scif/apps/count/scif/runscript
#!/bin/sh

    exec count.sh "$START" "$@"

END
COPY --chmod=755 <<'END' /scif/apps/count/scif/test
#!/bin/sh

    count.sh 0

END
COPY <<'END' /scif/apps/count/scif/runscript.help
    Counts.
END
COPY <<'END' /scif/apps/count/scif/labels.json
{
	"SCIF_APP_NAME": "count",
	"Version": "1.0"
}
END
COPY --chmod=755 <<'END' /scif/apps/other-app/scif/env/01-base.sh
#!/bin/sh
SCIF_APPNAME=other-app
SCIF_APPROOT=/scif/apps/other-app
SCIF_APPMETA=/scif/apps/other-app/scif
SCIF_DATA=/scif/data
SCIF_APPDATA=/scif/data/other-app
SCIF_APPINPUT=/scif/data/other-app/input
SCIF_APPOUTPUT=/scif/data/other-app/output
export SCIF_APPNAME SCIF_APPROOT SCIF_APPMETA SCIF_DATA SCIF_APPDATA SCIF_APPINPUT SCIF_APPOUTPUT
END
COPY --chmod=755 <<'END' /scif/apps/other-app/scif/startscript
#!/bin/sh

    sleep 10

END
COPY <<'END' /scif/apps/other-app/scif/labels.json
{
	"SCIF_APP_NAME": "other-app"
}
END
COPY --chmod=755 <<'END' /.singularity.d/env/94-appsbase.sh
# The app count.
export SCIF_APPDATA_count=/scif/data/count
export SCIF_APPMETA_count=/scif/apps/count/scif
export SCIF_APPROOT_count=/scif/apps/count
export SCIF_APPBIN_count=/scif/apps/count/bin
export SCIF_APPLIB_count=/scif/apps/count/lib
export SCIF_APPENV_count=/scif/apps/count/scif/env/90-environment.sh
export SCIF_APPLABELS_count=/scif/apps/count/scif/labels.json
export SCIF_APPRUN_count=/scif/apps/count/scif/runscript
# The app other-app.
export SCIF_APPDATA_other_app=/scif/data/other-app
export SCIF_APPMETA_other_app=/scif/apps/other-app/scif
export SCIF_APPROOT_other_app=/scif/apps/other-app
export SCIF_APPBIN_other_app=/scif/apps/other-app/bin
export SCIF_APPLIB_other_app=/scif/apps/other-app/lib
export SCIF_APPLABELS_other_app=/scif/apps/other-app/scif/labels.json
export SCIF_APPSTART_other_app=/scif/apps/other-app/scif/startscript
END
COPY --chmod=755 <<'END' /.singularity.d/env/95-apps.sh
#!/bin/sh
# The environment of the app that is run.
app="${APPTAINER_APPNAME:-${SINGULARITY_APPNAME:-}}"
if [ -n "$app" ]; then
    if [ ! -d "/scif/apps/$app" ]; then
        echo "The image has no app $app" >&2
        exit 1
    fi
    SCIF_APPS=/scif/apps
    export SCIF_APPS
    PATH="/scif/apps/$app/bin:/scif/apps/$app:$PATH"
    LD_LIBRARY_PATH="/scif/apps/$app/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export PATH LD_LIBRARY_PATH
    for script in 01-base.sh 90-environment.sh; do
        if [ -f "/scif/apps/$app/scif/env/$script" ]; then
            . "/scif/apps/$app/scif/env/$script"
        fi
    done
fi
unset app
END

FROM scratch AS sluice-scripts-1
COPY <<'END' /files
LC_ALL=C
PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export LC_ALL PATH
umask 002
IFS=
from=$1 root=$2
shift 2
[ -n "$from" ] || cd /dev/sluice-context || exit 1

fail() {
    echo "line $line: $1" >&2
    exit 1
}

# Sets $found to a path without links, below the root $1.
resolve() {
    rest=$2 found= links=0
    while [ -n "$rest" ]; do
        case $rest in
            */*) part=${rest%%/*} rest=${rest#*/} ;;
            *) part=$rest rest= ;;
        esac
        case $part in
            '' | .) continue ;;
            ..) found=${found%/*} && continue ;;
        esac
        if [ ! -h "$1$found/$part" ]; then
            found=$found/$part
            continue
        fi
        links=$((links + 1))
        [ $links -lt 256 ] || fail "'$2' has too many links"
        link=$(readlink "$1$found/$part") || fail "'$2' cannot be read"
        case $link in /*) found= ;; esac
        rest=$link/$rest
    done
}

while [ $# -gt 0 ]; do
    line=$1 source=$2 target=$3
    shift 3
    for item in $from$source; do
        name=${item#"$from"}
        if [ -n "$from" ]; then
            resolve "$from" "$name"
            item=$from$found
        fi
        [ -e "$item" ] || [ -h "$item" ] || fail "'$source' does not match a file"
        to=${target:-$root/$name}
        resolve '' "$to"
        to=${to##*[!/]}
        to=${found:-/}${to:+/}
        if [ ! -e "$to" ]; then
            case $to in
                */) directory=$to ;;
                *) directory=${to%/*} ;;
            esac
            (umask 022 && mkdir -p "${directory:-/}") || fail "'$to' cannot be made"
        fi
        final=$to
        if [ -d "$to" ]; then
            final=${name%/}
            final=${to%/}/${final##*/}
            # Apptainer gives what a link of a stage leads to the name of the link.
            [ -z "$from" ] || to=${to%/}/${name##*/}
        fi
        links=$(find "$item" -type l 2>/dev/null)
        if [ -z "$from" ] && [ -n "$links" ]; then
            fail "'$links' is a link to nothing in the build context"
        fi
        if [ -f "$item" ] && [ -f "$final" ]; then
            # The cp of busybox would replace the file, and with it its mode.
            cat "$item" >"$final" || exit 1
        elif [ -n "$from" ]; then
            cp -fr -- "$item" "$to" || fail "'$source' cannot be copied"
        else
            cp -fLr -- "$item" "$to" || fail "'$source' cannot be copied"
        fi
    done
done
END
COPY <<'END' /host
APPTAINER_ROOTFS=/
SINGULARITY_ROOTFS=/
APPTAINER_BUILDDEF=/dev/sluice-context/Singularity
SINGULARITY_BUILDDEF=/dev/sluice-context/Singularity
export APPTAINER_ROOTFS SINGULARITY_ROOTFS APPTAINER_BUILDDEF SINGULARITY_BUILDDEF
umask 002
cd /dev/sluice-context && exec "$@"
END
COPY <<'END' /setup
    mkdir -p ${APPTAINER_ROOTFS}/data
END
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
    echo post

cd /
. /scif/apps/count/scif/env/01-base.sh

cd /scif/apps/count
    echo counted >bin/result

cd /

cd /
. /scif/apps/other-app/scif/env/01-base.sh

cd /scif/apps/other-app

cd /
END
COPY <<'END' /environment
    export ALL=1
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

    test "$ALL" = 1

END

FROM alpine:3.21 AS sluice-base-1
COPY --from=sluice-apps-1 ["/","/"]
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice --mount=type=bind,target=/dev/sluice-context ["/bin/sh","/dev/sluice/files","","/scif/apps/count","8","count.sh","/scif/apps/count/bin/","9","data/input.txt",""]
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice --mount=type=bind,target=/dev/sluice-context ["/bin/sh","/dev/sluice/host","/bin/sh","-ex","/dev/sluice/setup"]

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
