import { posix } from 'node:path';
import type { Grow } from './arguments.ts';
import type { DefinitionStage } from './parser.ts';
import { appInstructions } from './sections/apps.ts';
import type { StageBase } from './sections/bootstrap.ts';
import { copiesToNothing, type FileCopies, fileCopies } from './sections/files.ts';
import { setupScript } from './sections/setup.ts';
import {
  copyInstructions,
  postInstructions,
  scriptStage,
  setupInstructions,
  testInstructions,
  waitForTest,
} from './sections/stage-scripts.ts';
import { scriptFile, scriptOf } from './sections.ts';

/** Returns the name of a stage in the Dockerfile. Stages count from 1. */
export function stageName(number: number): string {
  return `sluice-stage-${number}`;
}

export interface StageOptions {
  readonly number: number;
  /** The Dockerfile's names of the previous stages, by their names in the definition file. */
  readonly names: ReadonlyMap<string, string>;
  readonly runsTest: boolean;
  /** Counts the characters of names that braces stand for. */
  readonly grow: Grow;
  /** True to run nothing for a stage that only copies files. */
  readonly isPlain: boolean;
}

/** The instructions of a stage. */
export interface StageInstructions {
  readonly text: string;
  /** How the stage copies files without a program of the image; undefined for a stage that needs a shell. */
  readonly plain: PlainCopies | undefined;
}

/**
 * Returns the instructions for the image of a stage. Throws a `Fault` with the line for anything that cannot be built.
 */
export function stageInstructions(
  stage: DefinitionStage,
  { image, packages, manager = 'apt' }: StageBase,
  { number, names, runsTest, grow, isPlain }: StageOptions,
): StageInstructions {
  const called = (part: string) => `sluice-${part}-${number}`;
  const apps = appInstructions(stage, called('apps'), grow);
  const setup = setupScript(stage);
  const own = scriptOf(stage, 'post');
  const script = `${own?.text.trim() ? own.text : ''}${apps?.install ?? ''}`;
  const post = script === '' ? undefined : { text: script, argument: own?.argument ?? '' };
  const test = runsTest ? scriptOf(stage, 'test') : undefined;
  const scripts = called('scripts');
  const copiesOf = (isOfStage: boolean) =>
    stage.sections
      .filter(({ name, argument }) => name === 'files' && (argument !== '') === isOfStage)
      .map(section => fileCopies(section, name => names.get(name), grow));
  const [ofStages, ofContext] = [copiesOf(true), copiesOf(false)];
  const all = [...(apps?.files ?? []), ...ofStages, ...ofContext];
  const isEmpty = image === 'scratch';
  const needsShell = isEmpty || apps || setup || post || test || packages.length > 0;
  const plain = needsShell || all.length === 0 ? undefined : plainCopies(all, called);
  const copy = (sections: readonly FileCopies[]) =>
    isEmpty ? [] : sections.flatMap(section => copyInstructions(scripts, section));
  const scripted = [
    ...(packages.length > 0 ? installPackages(packages, manager) : []),
    ...(apps ? [apps.copy, ...copy(apps.files)] : []),
    ...copy(ofStages),
    ...(isEmpty ? copiesToNothing(all) : []),
    ...(setup ? setupInstructions(scripts) : []),
    ...copy(ofContext),
  ];
  const isShellless = isPlain && plain !== undefined;
  const files = isShellless ? plain.instructions : scripted;
  const [base, built, last] = [called('base'), called('built'), stageName(number)];
  const untested = test ? built : last;
  const blocks = [
    ...(isShellless ? plain.stages : []),
    ...(apps ? [apps.stage] : []),
    scriptStage(scripts, {
      setup,
      post,
      copies: !isEmpty && !isShellless && all.some(({ lines }) => lines.length > 0),
      test: test && scriptFile(test),
      environment: scriptOf(stage, 'environment')?.text,
    }),
    ...(post
      ? [
          [`FROM ${image} AS ${base}`, ...files],
          // WORKDIR creates missing directories.
          [`FROM ${base} AS ${called('tmp')}`, 'WORKDIR /tmp', 'WORKDIR /var/tmp'],
          [`FROM ${base} AS ${untested}`, ...postInstructions(scripts, post, called('tmp'))],
        ]
      : [[`FROM ${image} AS ${untested}`, ...files]]),
    ...(test
      ? [
          [`FROM ${built} AS ${called('test')}`, ...testInstructions(scripts)],
          [`FROM ${built} AS ${last}`, waitForTest(called('test'))],
        ]
      : []),
  ];
  const text = blocks
    .filter(block => block.length > 0)
    .map(block => `${block.join('\n')}\n`)
    .join('\n');
  return { text, plain };
}

// As these programs leave a new system: packages installed, without package lists. The mirrors of an old release may be
// closed, so nothing is asked of them for packages that the image has already.
const missing = `for name; do
    shift
    rpm -q "$name" >/dev/null 2>&1 || set -- "$@" "$name"
done
[ $# -gt 0 ] || exit 0
`;
const installScripts = {
  apt: 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" && rm -rf /var/lib/apt/lists/*',
  rpm: `${missing}if command -v dnf >/dev/null; then set -- dnf -y install "$@"; else set -- yum -y install "$@"; fi\n"$@" && "$1" clean all`,
  zypper: `${missing}zypper --non-interactive install "$@" && zypper clean --all`,
} as const;

function installPackages(
  packages: readonly string[],
  manager: keyof typeof installScripts,
): readonly string[] {
  const words = ['/bin/sh', '-ec', installScripts[manager], 'sh', ...packages];
  return ['USER 0', `RUN ${JSON.stringify(words)}`];
}

/** Copies of files that need no program in the image. */
interface PlainCopies {
  /** Stages that fail unless the sources in earlier stages are files, and give these the modes of copies. */
  readonly stages: readonly (readonly string[])[];
  readonly instructions: readonly string[];
  /** Sources in the build context that must be files, with their lines in the definition file. */
  readonly files: readonly (readonly [path: string, line: number])[];
}

/**
 * Returns COPY instructions for an image without a shell. COPY and `cp -fLr` copy a file to the same place, whether
 * the target is a directory or not; a directory they may merge or nest. Returns undefined for patterns.
 *
 * @param called returns a name for a stage
 */
function plainCopies(
  sections: readonly FileCopies[],
  called: (part: string) => string,
): PlainCopies | undefined {
  const lines = sections.flatMap(section => section.lines);
  if (lines.some(({ source }) => /[*?[]/.test(source))) return undefined;
  const stages: (readonly string[])[] = [];
  const instructions = sections.flatMap(({ from, root, lines }, position) => {
    const checked = called(`files-${position + 1}`);
    if (from !== undefined) {
      const sources = lines.flatMap(({ line, source }) => [String(line), source]);
      const run = JSON.stringify(['/bin/sh', '-c', check, 'sh', ...sources]);
      stages.push([`FROM ${from} AS ${checked}`, 'USER 0', `RUN ${run}`]);
    }
    const flags = from === undefined ? '' : `--from=${checked} `;
    return lines.map(({ source, target = posix.join(root, source) }) => {
      return `COPY ${flags}${JSON.stringify([source, target])}`;
    });
  });
  const files = sections
    .filter(({ from }) => from === undefined)
    .flatMap(section => section.lines)
    .map(({ source, line }) => [posix.normalize(source), line] as const);
  return { stages, instructions, files };
}

const check = `while [ $# -gt 0 ]; do
    [ -f "$2" ] || { echo "line $1: '$2' is not a file, and the base image has no /bin/sh to copy anything else" >&2; exit 1; }
    chmod ug-s,o-wt "$2" || exit 1
    shift 2
done`;
