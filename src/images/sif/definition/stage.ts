import type { Grow } from './arguments.ts';
import type { DefinitionStage } from './parser.ts';
import { appInstructions } from './sections/apps.ts';
import { copiesToNothing, type FileCopies, fileCopies } from './sections/files.ts';
import { type PlainCopies, plainCopies } from './sections/plain-copies.ts';
import {
  copyInstructions,
  postInstructions,
  scriptStage,
  setupInstructions,
  testInstructions,
  waitForTest,
} from './sections/post.ts';
import { scriptFile } from './sections/script-file.ts';
import { setupScript } from './sections/setup.ts';
import type { StageBase } from './sections/stage-base.ts';
import { scriptOf } from './sections.ts';

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
      ...{ setup, post },
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
