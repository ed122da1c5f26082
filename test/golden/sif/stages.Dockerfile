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
  export PATH="/go/bin:$PATH"
  cat <<EOF >hello.go
package main
import "fmt"
func main() { fmt.Printf("Hello\n") }
EOF
  go build -o hello hello.go

END

FROM golang:1.26 AS sluice-base-1

FROM sluice-base-1 AS sluice-tmp-1
WORKDIR /tmp
WORKDIR /var/tmp

FROM sluice-base-1 AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice --mount=type=bind,from=sluice-tmp-1,source=/tmp,target=/tmp,rw --mount=type=bind,from=sluice-tmp-1,source=/var/tmp,target=/var/tmp,rw ["/bin/sh","/dev/sluice/prepare","/bin/sh","-ex","/dev/sluice/post"]

FROM alpine:3.21 AS sluice-stage-2

FROM scratch AS sluice-scripts-3
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

FROM gcr.io/distroless/static@sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff AS sluice-stage-3
USER 0
RUN --mount=type=bind,from=sluice-scripts-3,target=/dev/sluice --mount=type=bind,from=sluice-stage-1,target=/dev/sluice-from ["/bin/sh","/dev/sluice/files","/dev/sluice-from","","28","/root/hello","/bin/hello"]
USER 0
RUN --mount=type=bind,from=sluice-scripts-3,target=/dev/sluice --mount=type=bind,from=sluice-stage-2,target=/dev/sluice-from ["/bin/sh","/dev/sluice/files","/dev/sluice-from","","30","/etc/ssl","/etc/"]
USER 0
RUN --mount=type=bind,from=sluice-scripts-3,target=/dev/sluice --mount=type=bind,target=/dev/sluice-context ["/bin/sh","/dev/sluice/files","","","26","notes.txt","/opt"]
