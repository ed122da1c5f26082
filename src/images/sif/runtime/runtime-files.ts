import { asObject, type JsonObject, memberName } from '../../../oci/index.ts';
import type { Architecture } from '../../../oci/naming.ts';
import { type KeptScripts, postEnvironmentPath } from '../layers/kept-scripts.ts';
import type { AppRuntime, DefinitionRuntime } from './definition-runtime.ts';
import { doubleQuoted, environmentScript, singleQuoted } from './environment.ts';
import { labelsIn, runtimeLabels } from './labels.ts';

/**
 * An entry to add to an image. A file replaces an existing entry. A directory or link is added only if its path
 * does not exist.
 */
export interface SifEntry {
  /** Relative to the root of the image, without a slash at either end. */
  readonly path: string;
  readonly kind: 'file' | 'directory' | 'symlink';
  readonly mode: number;
  /** Content of a file. */
  readonly content?: Buffer;
  /** Target of a link. */
  readonly target?: string;
}

/** Describes how an image runs. */
export interface RuntimeInput {
  /** The `config` member of the OCI image config. */
  readonly config: JsonObject;
  readonly architecture: Architecture;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** The definition of the image; see `imageDefinition`. */
  readonly definition: DefinitionRuntime;
  /** Scripts that the build of a definition file left in the image. */
  readonly scripts?: KeptScripts | undefined;
}

// Paths where a client mounts directories and files of the machine.
const mountPoints = ['dev', 'etc', 'home', 'proc', 'root', 'sys', 'tmp', 'var', 'var/tmp'];
const mountedFiles = ['etc/hosts', 'etc/resolv.conf'];
const home = '.singularity.d';
const historyFolder = 'bootstrap_history';

/** Returns the entries that old and new clients need to run an image. Parents come before their children. */
export function runtimeFiles(input: RuntimeInput): readonly SifEntry[] {
  const { definition } = input;
  const texts = textsOf(input);
  const past = historyOf(input);
  const scripts = { ...runtimeScripts, ...texts.environment, ...texts.scripts };
  const plain = {
    'labels.json': JSON.stringify(texts.labels, undefined, '\t'),
    Singularity: definition.text,
    ...(texts.help === undefined ? {} : { 'runscript.help': texts.help }),
    ...past,
  };
  return [
    ...mountPoints.map(directoryEntry),
    ...mountedFiles.map(path => fileEntry(path, '', 0o644)),
    directoryEntry(home),
    ...runtimeDirectories.map(name => directoryEntry(`${home}/${name}`)),
    ...(Object.keys(past).length > 0 ? [directoryEntry(`${home}/${historyFolder}`)] : []),
    ...Object.entries(scripts).map(([path, text]) => fileEntry(`${home}/${path}`, text, 0o755)),
    ...Object.entries(plain).map(([path, text]) => fileEntry(`${home}/${path}`, text, 0o644)),
    ...Object.entries(runtimeLinks).map(([path, target]) => linkEntry(path, target)),
  ];
}

/** Returns the data that `apptainer inspect` prints for an image with these files, in the form of a SIF file. */
export function inspectMetadata(input: RuntimeInput): object {
  const { environment, scripts, labels, help } = textsOf(input);
  const { definition, scripts: kept } = input;
  const { text, apps } = definition;
  return {
    data: {
      attributes: {
        ...(apps === undefined ? {} : { apps: mapValues(apps, appMetadata) }),
        environment: {
          ...Object.fromEntries(
            Object.entries(environment).map(([path, script]) => [
              `/${home}/${path}`,
              shownText(script),
            ]),
          ),
          [`/${postEnvironmentPath}`]: shownText(kept?.postEnvironment),
        },
        labels,
        runscript: shownText(scripts.runscript),
        test: shownText(scripts.test),
        helpfile: shownText(help),
        deffile: shownText(text),
        startscript: shownText(scripts.startscript),
      },
    },
    type: 'container',
  };
}

function appMetadata(app: AppRuntime, name: string): object {
  const { environment, labels, runscript, startscript, test, help } = app;
  return {
    ...(environment === undefined
      ? {}
      : {
          environment: {
            [`/scif/apps/${name}/scif/env/90-environment.sh`]: shownText(environment),
          },
        }),
    labels,
    runscript: shownText(runscript),
    startscript: shownText(startscript),
    test: shownText(test),
    helpfile: shownText(help),
  };
}

/** Sorted by name. */
function mapValues<T, U>(record: Readonly<Record<string, T>>, map: (value: T, name: string) => U) {
  const entries = Object.entries(record).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([name, value]) => [name, map(value, name)]));
}

interface RuntimeTexts {
  readonly environment: Readonly<Record<string, string>>;
  readonly scripts: {
    readonly runscript: string;
    readonly startscript: string;
    readonly test?: string;
  };
  readonly labels: Readonly<Record<string, string>>;
  readonly help: string | undefined;
}

function textsOf(input: RuntimeInput): RuntimeTexts {
  const { config, architecture, createdAt, definition, scripts: kept = {} } = input;
  const { entrypoint, cmd, env, labels } = readOciRuntime(config);
  const { environment, requestedEnvironment } = definition;
  const base = definition.isOnSif ? kept : {};
  const isStarted = entrypoint.length + cmd.length > 0;
  const runscript = definition.runscript ?? (isStarted ? undefined : base.runscript);
  const test = definition.test ?? base.test;
  // If the definition sets no variables, the image config is enough, and the caller's own variables override it.
  const isOverridden = [
    environment,
    kept.environment,
    kept.postEnvironment,
    base.imageEnvironment,
  ].some(script => script !== undefined);
  return {
    environment: {
      // Clients look for this name, and complete the PATH in this file.
      'env/10-docker2singularity.sh': base.imageEnvironment ?? environmentScript(env),
      'env/90-environment.sh': environmentOf(input),
      // Runs after the variables that `%post` wrote.
      ...(isOverridden && requestedEnvironment !== undefined
        ? { 'env/92-environment.sh': `#!/bin/sh\n${requestedEnvironment}` }
        : {}),
    },
    scripts: {
      runscript: runscript ?? ociRunscript(entrypoint, cmd),
      startscript: definition.startscript ?? base.startscript ?? '#!/bin/sh\n',
      ...(test === undefined ? {} : { test }),
    },
    labels: runtimeLabels({
      image: labels,
      written: writtenLabels(kept.labels),
      definition,
      architecture,
      createdAt,
    }),
    // `apptainer build` also keeps the help text of the base.
    help: base.help ?? definition.help,
  };
}

/** Returns the script that sets the existing variables, then those of the definition file. */
function environmentOf({ definition, scripts: kept = {} }: RuntimeInput): string {
  const before = wholeLines(kept.environment ?? '#!/bin/sh\n');
  const { environment, isOnSif } = definition;
  if (environment === undefined) return before;
  return `${before}${isOnSif ? '\n' : ''}${environment}`;
}

/** Adds the definition file of the base, if it has one, to the history of definition files. */
function historyOf({ definition, scripts: kept = {} }: RuntimeInput): Record<string, string> {
  if (!definition.isOnSif || kept.definition === undefined) return {};
  const names = new Set(kept.history);
  let number = 0;
  while (names.has(`Apptainer${number}`)) number += 1;
  return { [`${historyFolder}/Apptainer${number}`]: kept.definition };
}

/** Parses the labels that `%post` wrote: a name and a value on each line. */
function writtenLabels(text = ''): Readonly<Record<string, string>> {
  const lines = text.split('\n').map(line => line.trim());
  return labelsIn(lines.filter(line => line !== '' && !line.startsWith('#')));
}

function wholeLines(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

/** Removes the line ends at the end of a text, as `apptainer inspect` does. */
function shownText(text: string | undefined): string | undefined {
  let end = text?.length ?? 0;
  while (text?.[end - 1] === '\n') end -= 1;
  return text?.slice(0, end);
}

function directoryEntry(path: string): SifEntry {
  return { path, kind: 'directory', mode: 0o755 };
}

function fileEntry(path: string, text: string, mode: number): SifEntry {
  return { path, kind: 'file', mode, content: Buffer.from(text) };
}

function linkEntry(path: string, target: string): SifEntry {
  return { path, kind: 'symlink', mode: 0o777, target };
}

/** Values that a SIF file uses from the `config` member of an OCI image config. */
interface OciRuntime {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** Entries of the form `NAME=value`. */
  readonly env: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

/** Reads the members. They may be missing, null, in another case, or of a type that old versions of Docker wrote. */
function readOciRuntime(config: JsonObject): OciRuntime {
  const at = (member: string) => config[memberName(config, member)];
  const labels = Object.entries(asObject(at('Labels')) ?? {});
  return {
    entrypoint: stringsIn(at('Entrypoint')),
    cmd: stringsIn(at('Cmd')),
    env: stringsIn(at('Env')),
    labels: Object.fromEntries(
      labels.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    ),
  };
}

function stringsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
}

/**
 * The script that starts an image: its entrypoint with its command, or with the arguments that the user gives
 * in the command's place. Arguments are evaluated as within double quotes unless the user says otherwise, as
 * by what `apptainer build` writes. Apptainer interprets a script that has just this line with `eval` by
 * itself, so that the image needs no shell.
 */
export function ociRunscript(entrypoint: readonly string[], cmd: readonly string[]): string {
  const evaluated = (words: readonly string[]) =>
    singleQuoted(words.map(word => ` ${doubleQuoted(word)}`).join(''));
  const verbatim = (words: readonly string[]) =>
    words.map(word => ` ${singleQuoted(word)}`).join('');
  return `#!/bin/sh
# Runs the entrypoint of the image, with its command unless there are arguments.
${entrypoint.length + cmd.length === 0 ? needsArguments : ''}
if [ -n "\${SINGULARITY_NO_EVAL:-}" ]; then
    # Arguments are taken as they are.
    [ $# -gt 0 ] || set --${verbatim(cmd)}
    set --${verbatim(entrypoint)} "$@"
    exec "$@"
fi

# Arguments are evaluated as in double quotes.
SINGULARITY_OCI_RUN=${evaluated(cmd)}
if [ $# -gt 0 ]; then
    SINGULARITY_OCI_RUN=
    for argument in "$@"; do
        SINGULARITY_OCI_RUN="\${SINGULARITY_OCI_RUN} \\"\${argument}\\""
    done
fi
SINGULARITY_OCI_RUN=--${evaluated(entrypoint)}"\${SINGULARITY_OCI_RUN}"
eval "set \${SINGULARITY_OCI_RUN}"
exec "$@"
`;
}

const needsArguments = `
if [ $# -eq 0 ]; then
    echo "This image names no program to run: name one" >&2
    exit 1
fi
`;

/**
 * The files in `/.singularity.d` that are the same in every image, by path. Clients since Singularity 3.6 have
 * their own copies of the scripts in `actions`, and run the scripts in `env`. Older clients run those in `actions`.
 * Source: the layout that `apptainer build` makes.
 */
const runtimeScripts: Readonly<Record<string, string>> = {
  'actions/exec': actionScript('exec "$@"'),
  'actions/run': actionScript(`if [ -x /.singularity.d/runscript ]; then
    exec /.singularity.d/runscript "$@"
fi
exec /bin/sh "$@"`),
  'actions/shell':
    actionScript(`if [ -n "\${SINGULARITY_SHELL:-}" ] && [ -x "$SINGULARITY_SHELL" ]; then
    exec "$SINGULARITY_SHELL" "$@"
elif [ -x /bin/bash ]; then
    SHELL=/bin/bash
    export SHELL
    exec /bin/bash --norc "$@"
fi
SHELL=/bin/sh
export SHELL
exec /bin/sh "$@"`),
  'actions/start': actionScript(
    `if [ -x /.singularity.d/startscript ]; then
    exec /.singularity.d/startscript "$@"
fi`,
    '# The first process of an instance waits for this.\nkill -CONT 1\n',
  ),
  'actions/test': actionScript(`if [ -x /.singularity.d/test ]; then
    exec /.singularity.d/test "$@"
fi
echo "This image has no test"`),
  // Clients set the user's variables after this script, so it must exist.
  'env/99-base.sh': `#!/bin/sh
# Libraries that the client brings along, such as those of a graphics card.
LD_LIBRARY_PATH="\${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs"
PS1="\${PS1:-Apptainer> }"
export LD_LIBRARY_PATH PS1
`,
  'env/99-runtimevars.sh': `#!/bin/sh
# What the user has said about PATH.
PATH="\${SING_USER_DEFINED_PREPEND_PATH:+$SING_USER_DEFINED_PREPEND_PATH:}$PATH"
PATH="$PATH\${SING_USER_DEFINED_APPEND_PATH:+:$SING_USER_DEFINED_APPEND_PATH}"
PATH="\${SING_USER_DEFINED_PATH:-$PATH}"
export PATH
unset SING_USER_DEFINED_PREPEND_PATH SING_USER_DEFINED_APPEND_PATH SING_USER_DEFINED_PATH
`,
};

/** Directories that exist even if they are empty. */
const runtimeDirectories = ['actions', 'env', 'libs'] as const;

/** Links in the root of the image for the oldest clients, with their targets. */
const runtimeLinks: Readonly<Record<string, string>> = {
  '.exec': '.singularity.d/actions/exec',
  '.run': '.singularity.d/actions/run',
  '.shell': '.singularity.d/actions/shell',
  '.test': '.singularity.d/actions/test',
  environment: '.singularity.d/env/90-environment.sh',
  singularity: '.singularity.d/runscript',
};

/** Returns a script that sets the environment and then runs the given code. */
function actionScript(does: string, first = ''): string {
  return `#!/bin/sh
${first}for script in /.singularity.d/env/*.sh; do
    if [ -f "$script" ]; then
        . "$script"
    fi
done
${does}
`;
}
