# Translated from a definition file.

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

FROM alpine AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-scripts-1,target=/dev/sluice --mount=type=bind,target=/dev/sluice-context ["/bin/sh","/dev/sluice/files","","","6","a.txt","","7","a.txt","/opt/","8","a.txt","/opt","9","a.txt","/opt/b.txt","10","./a.txt","/opt/relative","11","with blank.txt","/srv/other blank.txt","12","folder","/opt","13","folder/","/srv/folder/","14","folder/inner","/data","15",".","/all","16","*.txt","/texts/","17","folder/*.txt","/texts","18","folder/?[ab]*",""]
