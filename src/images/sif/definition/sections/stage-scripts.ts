import { postEnvironmentPath } from '../../layers/kept-scripts.ts';
import { type Script, writeFile } from '../sections.ts';
import type { FileCopies } from './files.ts';

/** The directories at which the script finds the build context, and an earlier stage. */
const contextFolder = '/dev/sluice-context';
const stageFolder = '/dev/sluice-from';

/**
 * A shell script that copies files as `apptainer build` does: one match of a pattern after another, each with its own
 * `cp`, so that a target that the first match made is there for the next. Links in a target, and in a source of a stage,
 * are followed below the root that they belong to.
 * Source: apptainer 1.4.5, internal/pkg/build/files, read and compared with its results.
 */
const copyScript = `LC_ALL=C
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

// A directory that no image keeps.
const mountFolder = '/dev/sluice';
const environmentFile = `/${postEnvironmentPath}`;

// Prepares the environment and files that a script of a definition file finds in `apptainer build`.
const prepareScript = `for sluice_item in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
    case ":$PATH:" in
        *":$sluice_item:"*) ;;
        *) PATH="\${PATH:+$PATH:}$sluice_item" ;;
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
APPTAINER_ENVIRONMENT=${environmentFile}
SINGULARITY_ENVIRONMENT=${environmentFile}
APPTAINER_LABELS=/.build.labels
SINGULARITY_LABELS=/.build.labels
export APPTAINER_ENVIRONMENT SINGULARITY_ENVIRONMENT APPTAINER_LABELS SINGULARITY_LABELS
unset sluice_item
cd / && exec "$@"
`;

// The variables of `%setup` on a build machine: the root of the image, and the build context as the working directory.
const setUpScript = `APPTAINER_ROOTFS=/
SINGULARITY_ROOTFS=/
APPTAINER_BUILDDEF=${contextFolder}/Singularity
SINGULARITY_BUILDDEF=${contextFolder}/Singularity
export APPTAINER_ROOTFS SINGULARITY_ROOTFS APPTAINER_BUILDDEF SINGULARITY_BUILDDEF
umask 002
cd ${contextFolder} && exec "$@"
`;

// Sets the variables of the definition file before those that %post set. Apptainer reads them with an interpreter of its
// own that is much like bash: it knows `source`, and goes on after a file that is missing, where other shells end.
const tryOutScript = `if [ -z "$sluice_shell" ] && [ -x /bin/bash ]; then
    sluice_shell=bash exec /bin/bash ${mountFolder}/try
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
        */90-environment.sh) [ ! -f ${mountFolder}/environment ] || . ${mountFolder}/environment ;;
    esac
done
unset sluice_item
cd / && exec ${mountFolder}/test
`;

/** The scripts of a stage that run during its build. */
interface StageScripts {
  /** True for a stage that copies files. */
  readonly copies: boolean;
  readonly setup: Script | undefined;
  readonly post: Script | undefined;
  /** A complete script, including the first line. */
  readonly test: string | undefined;
  /** Shell code that sets the variables of the image. */
  readonly environment: string | undefined;
}

/** Returns a stage that contains only scripts. Returns an empty list if there is nothing to run. */
export function scriptStage(name: string, scripts: StageScripts): readonly string[] {
  const { copies, setup, post, test, environment } = scripts;
  if (!copies && !setup && !post && test === undefined) return [];
  return [
    `FROM scratch AS ${name}`,
    ...(copies ? [writeFile('/files', copyScript)] : []),
    ...(setup ? [writeFile('/host', setUpScript), writeFile('/setup', setup.text)] : []),
    ...(post ? [writeFile('/prepare', prepareScript), writeFile('/post', post.text)] : []),
    ...(test === undefined
      ? []
      : [
          ...(environment === undefined ? [] : [writeFile('/environment', environment)]),
          writeFile('/try', tryOutScript),
          writeFile('/test', test, '755'),
        ]),
  ];
}

/** Copies the files of a section. */
export function copyInstructions(name: string, copies: FileCopies): readonly string[] {
  if (copies.lines.length === 0) return [];
  const { from } = copies;
  return [
    'USER 0',
    runLine(
      [
        bindMount({ from: name, target: mountFolder }),
        bindMount(from === undefined ? { target: contextFolder } : { from, target: stageFolder }),
      ],
      ['/bin/sh', `${mountFolder}/files`, ...copyArguments(copies)],
    ),
  ];
}

/** Returns the arguments of the script. */
function copyArguments({ from, root, lines }: FileCopies): readonly string[] {
  return [
    from === undefined ? '' : stageFolder,
    root === '/' ? '' : root,
    ...lines.flatMap(({ line, source, target = '' }) => [String(line), source, target]),
  ];
}

/** Runs `%setup`, with the build context as its working directory. */
export function setupInstructions(name: string): readonly string[] {
  return [
    'USER 0',
    runLine(
      [bindMount({ from: name, target: mountFolder }), bindMount({ target: contextFolder })],
      ['/bin/sh', `${mountFolder}/host`, '/bin/sh', '-ex', `${mountFolder}/setup`],
    ),
  ];
}

/**
 * Runs `%post` as Apptainer does: as root, in `/`, in a shell that prints each command and stops at the first
 * failure. The image excludes files that `%post` leaves in the directories for temporary files.
 *
 * @param temporary the stage with those directories
 */
export function postInstructions(
  name: string,
  { argument }: Script,
  temporary: string,
): readonly string[] {
  const scratch = ['/tmp', '/var/tmp'].map(target =>
    bindMount({ from: temporary, source: target, target, rw: true }),
  );
  return [
    'USER 0',
    runLine(
      [bindMount({ from: name, target: mountFolder }), ...scratch],
      [
        ...['/bin/sh', `${mountFolder}/prepare`, '/bin/sh', '-ex'],
        ...argumentsFor(argument, `${mountFolder}/post`),
      ],
    ),
  ];
}

/** Runs `%test`. Keeps only the fact that it succeeded; discards everything that it writes. */
export function testInstructions(name: string): readonly string[] {
  return [
    `WORKDIR ${testedFolder}`,
    'USER 0',
    runLine([bindMount({ from: name, target: mountFolder })], ['/bin/sh', `${mountFolder}/try`]),
  ];
}

/** An empty directory. */
const testedFolder = '/.singularity.d/tested';

/** Makes a stage wait for the stage of a test, without copying anything from it. */
export function waitForTest(stage: string): string {
  return `COPY --from=${stage} ["${testedFolder}/","/.singularity.d/"]`;
}

interface Bind {
  readonly from?: string;
  readonly source?: string;
  readonly target: string;
  /** Discards everything that is written. */
  readonly rw?: true;
}

function bindMount({ from, source, target, rw }: Bind): string {
  const parts = [
    'type=bind',
    ...(from === undefined ? [] : [`from=${from}`]),
    ...(source === undefined ? [] : [`source=${source}`]),
    `target=${target}`,
    ...(rw ? ['rw'] : []),
  ];
  return `--mount=${parts.join(',')}`;
}

function runLine(mounts: readonly string[], words: readonly string[]): string {
  return ['RUN', ...mounts, JSON.stringify(words)].join(' ');
}

/** With `-c` the rest is a command, to which the script is the last argument. */
function argumentsFor(argument: string, script: string): readonly string[] {
  const words = argument === '' ? [] : argument.split(/\s+/);
  const at = words.indexOf('-c');
  if (at < 0) return [...words, script];
  return [...words.slice(0, at + 1), [...words.slice(at + 1), script].join(' ')];
}
