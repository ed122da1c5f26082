import type { FileCopies } from './files.ts';

/** The directories at which the script finds the build context, and an earlier stage. */
export const contextFolder = '/dev/sluice-context';
export const stageFolder = '/dev/sluice-from';

/**
 * A shell script that copies files as `apptainer build` does: one match of a pattern after another, each with its own
 * `cp`, so that a target that the first match made is there for the next. Links in a target, and in a source of a stage,
 * are followed below the root that they belong to.
 * Source: apptainer 1.4.5, internal/pkg/build/files, read and compared with its results.
 */
export const copyScript = `LC_ALL=C
PATH="\${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export LC_ALL PATH
umask 002
IFS=
from=$1 root=$2
shift 2
[ -n "$from" ] || cd ${contextFolder} || exit 1

fail() {
    echo "line $line: $1" >&2
    exit 1
}

# Sets $found to a path without links, below the root $1.
resolve() {
    rest=$2 found= links=0
    while [ -n "$rest" ]; do
        case $rest in
            */*) part=\${rest%%/*} rest=\${rest#*/} ;;
            *) part=$rest rest= ;;
        esac
        case $part in
            '' | .) continue ;;
            ..) found=\${found%/*} && continue ;;
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
        name=\${item#"$from"}
        if [ -n "$from" ]; then
            resolve "$from" "$name"
            item=$from$found
        fi
        [ -e "$item" ] || [ -h "$item" ] || fail "'$source' does not match a file"
        to=\${target:-$root/$name}
        resolve '' "$to"
        to=\${to##*[!/]}
        to=\${found:-/}\${to:+/}
        if [ ! -e "$to" ]; then
            case $to in
                */) directory=$to ;;
                *) directory=\${to%/*} ;;
            esac
            (umask 022 && mkdir -p "\${directory:-/}") || fail "'$to' cannot be made"
        fi
        final=$to
        if [ -d "$to" ]; then
            final=\${name%/}
            final=\${to%/}/\${final##*/}
            # Apptainer gives what a link of a stage leads to the name of the link.
            [ -z "$from" ] || to=\${to%/}/\${name##*/}
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
`;

/** Returns the arguments of the script. */
export function copyArguments({ from, root, lines }: FileCopies): readonly string[] {
  return [
    from === undefined ? '' : stageFolder,
    root === '/' ? '' : root,
    ...lines.flatMap(({ line, source, target = '' }) => [String(line), source, target]),
  ];
}
