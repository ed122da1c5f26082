import { maskAddresses } from '../../../buildkit/index.ts';
import type { BuildStep, LoggedStep, PlatformLayers, StepState } from '../../../builds/index.ts';
import { type BuildPlan, type RecipeOrigin, recipeIn } from '../../../builds/plan/build-plan.ts';
import {
  type Instruction,
  packageUrlsIn,
  parseDockerfile,
  plainWords,
  recipeKindNamed,
} from '../../../builds/plan/index.ts';
import { sectionAt, splitStages } from '../../../images/sif/definition/index.ts';

/** What an image is made from. */
export interface ShownRecipe {
  /** How people call it, such as `Dockerfile`. */
  readonly title: string;
  /** Undefined for an existing image that is only copied. */
  readonly lines: readonly RecipeLine[];
  readonly facts: readonly (readonly [string, string])[];
  /** Other texts of the build by their titles, such as the files that the caller sent beside the recipe. */
  readonly others?: readonly (readonly [string, string])[] | undefined;
}

/** A line of a recipe, and what is known about it. */
export interface RecipeLine {
  readonly text: string;
  readonly isFailed: boolean;
  /** The step that this line begins. */
  readonly step: ShownStep | undefined;
  /** Bytes of its layer in the first platform. */
  readonly layerBytes: number | undefined;
}

/** A step as pages show it. */
export interface ShownStep {
  /** Its lines in the log begin with this number; undefined for work of Sluice itself. */
  readonly number: number | undefined;
  readonly name: string;
  readonly state: StepState;
  /** Times in ms since the epoch; undefined for a build of which only the log is kept. */
  readonly startedAt: number | undefined;
  readonly endedAt: number | undefined;
  readonly spentMs: number | undefined;
  readonly error: string | undefined;
}

interface Course {
  readonly steps: readonly ShownStep[];
  readonly failure: { readonly words: string } | undefined;
  readonly platforms: readonly PlatformLayers[];
}

/** Returns the recipe of a build with what is known about each of its lines, without credentials. */
export function shownRecipe(plan: BuildPlan, course: Course): ShownRecipe {
  const recipe = recipeIn(plan);
  if (!recipe) {
    const { origin } = plan;
    const from = origin.kind === 'image' ? `${origin.repository}@${origin.digest}` : '';
    return { title: 'Image', lines: [], facts: [['Made from', from]] };
  }
  if (recipe.native) return nativeRecipe(recipe);
  const text = maskAddresses(recipe.dockerfile);
  const isGenerated = recipeKindNamed(recipe.recipe).isGenerated;
  const others = Object.entries(recipe.files).map(([path, file]): [string, string] => {
    return [path, maskAddresses(file)];
  });
  if (recipe.original !== undefined) {
    return {
      title: 'Definition file',
      lines: definitionLines(maskAddresses(recipe.original), course.steps),
      facts: factsOf(recipe),
      others: [['The Dockerfile that this server made of it', text], ...others],
    };
  }
  return {
    others,
    title: isGenerated ? 'Dockerfile that this server wrote' : 'Dockerfile',
    lines: dockerfileLines(text, course),
    facts: factsOf(recipe),
  };
}

/** The packages of an image that Sluice makes without a Dockerfile. */
function nativeRecipe(recipe: RecipeOrigin): ShownRecipe {
  const { native } = recipe;
  if (!native) return { title: '', lines: [], facts: [] };
  const { wanted, channels, options } = native;
  const texts =
    wanted.form === 'environment'
      ? [...wanted.packages, ...options.basePackages]
      : wanted.form === 'lockUrl'
        ? [wanted.url]
        : packageUrlsIn(wanted);
  return {
    title: wanted.form === 'environment' ? 'Conda packages' : 'Conda lock file',
    lines: texts.map(text => plainLine(maskAddresses(text))),
    facts: [
      ['Channels', channels.map(maskAddresses).join(', ')],
      ['Base image', options.baseImage],
      ...factsOf(recipe),
    ],
  };
}

function factsOf(recipe: RecipeOrigin): readonly (readonly [string, string])[] {
  const { platforms, baseImages, context, isUploaded, options, native } = recipe;
  const facts: [string, string][] = [['Platforms', platforms.join(', ')]];
  if (!native && baseImages.length > 0) facts.push(['Base images', baseImages.join(', ')]);
  if (context !== undefined) {
    facts.push([
      'Build context',
      `${isUploaded ? 'uploaded as an artifact' : 'tar file'}, ${context}`,
    ]);
  }
  if (options?.target !== undefined) facts.push(['Stage', options.target]);
  const args = Object.keys(options?.args ?? {});
  if (args.length > 0) facts.push(['Build arguments', args.join(', ')]);
  if (options?.noCache) facts.push(['Cache', 'not used, as requested']);
  return facts;
}

function dockerfileLines(text: string, course: Course): readonly RecipeLine[] {
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const places = readPlaces(text);
  const lineOf = new Map(places.map(({ key, line }) => [key, line]));
  const steps = new Map<number, ShownStep>();
  for (const step of course.steps) {
    const line = lineOf.get(placeKey(step.name) ?? '');
    if (line !== undefined) steps.set(line, slowerStep(steps.get(line), step));
  }
  const sizes = layerSizes(places, course.platforms);
  const [, failed] = /\(Dockerfile, line (\d+)\)/.exec(course.failure?.words ?? '') ?? [];
  return lines.map((line, at) => {
    const step = steps.get(at + 1);
    return {
      text: line,
      step,
      layerBytes: sizes.get(at + 1),
      isFailed: failed === undefined ? step?.state === 'failed' : Number(failed) === at + 1,
    };
  });
}

/** Several platforms run a line each: the failed one counts, then the slowest. */
function slowerStep(one: ShownStep | undefined, other: ShownStep): ShownStep {
  if (!one || other.state === 'failed') return other;
  if (one.state === 'failed') return one;
  return (other.spentMs ?? 0) > (one.spentMs ?? 0) ? other : one;
}

/** A file with errors has no places. */
function readPlaces(text: string): readonly InstructionPlace[] {
  try {
    return placesOf(parseDockerfile(text).instructions);
  } catch {
    return [];
  }
}

/** Returns the sizes of the layers that the last stage added, by line. They are known only if all fit. */
function layerSizes(
  places: readonly InstructionPlace[],
  [first]: readonly PlatformLayers[],
): ReadonlyMap<number, number> {
  const wanted = places.filter(({ isInLastStage, name }) => isInLastStage && name !== 'FROM');
  const made = (first?.layers ?? []).flatMap(({ by, size }) => {
    const [, name] = /^(RUN|COPY|ADD|WORKDIR) /.exec(by ?? '') ?? [];
    return name === undefined ? [] : [{ name, size }];
  });
  const last = wanted.length === 0 ? [] : made.slice(-wanted.length);
  const fits = wanted.every(({ name }, at) => last[at]?.name === name);
  if (!fits) return new Map();
  return new Map(wanted.map(({ line }, at) => [line, last[at]?.size ?? 0]));
}

const plainLine = (text: string): RecipeLine => ({
  text,
  isFailed: false,
  step: undefined,
  layerBytes: undefined,
});

const definitionKind = recipeKindNamed('definition');

/**
 * Returns the lines of a definition file. The steps of a section stand at its header, where the file has one section of
 * that name only: its Dockerfile does not say which of several a step comes from.
 */
export function definitionLines(text: string, steps: readonly ShownStep[]): readonly RecipeLine[] {
  const lines = text.replace(/\n$/, '').split('\n');
  const headers = headersOf(text);
  const found = new Map<number, ShownStep>();
  for (const step of steps) {
    const places = headers.get(sectionOf(step.name) ?? '') ?? [];
    const [at] = places;
    if (at === undefined || places.length > 1) continue;
    const before = found.get(at);
    found.set(at, before?.state === 'failed' || isLonger(before, step) ? (before ?? step) : step);
  }
  return lines.map((line, at) => {
    const step = found.get(at);
    const isFailed = step?.state === 'failed';
    return { text: line, step, isFailed, layerBytes: undefined };
  });
}

/** Returns where each section begins, by its name; `from` is the line with the base image. Positions begin at 0. */
function headersOf(text: string): ReadonlyMap<string, readonly number[]> {
  const headers = new Map<string, number[]>();
  for (const stage of splitStages(text)) {
    let isInSection = false;
    for (const line of stage) {
      const section = sectionAt(line);
      isInSection ||= section !== undefined;
      const isBase = !isInSection && /^\s*from\s*:/i.test(line.text);
      const name = section?.name ?? (isBase ? 'from' : undefined);
      if (name === undefined) continue;
      const places = headers.get(name);
      if (places) places.push(line.number - 1);
      else headers.set(name, [line.number - 1]);
    }
  }
  return headers;
}

function sectionOf(step: string): string | undefined {
  const [, section] = /^'%(\w+)'/.exec(definitionKind.partOf(step)?.name ?? '') ?? [];
  if (section !== undefined) return section;
  const [, name] = /^\[[^\]]*\d\/\d{1,9}\] (FROM|COPY|ADD)\b/.exec(step) ?? [];
  if (name === undefined) return undefined;
  return name === 'FROM' ? 'from' : 'files';
}

function isLonger(one: ShownStep | undefined, other: ShownStep): boolean {
  return (
    one !== undefined && other.state !== 'failed' && (one.spentMs ?? 0) >= (other.spentMs ?? 0)
  );
}

/** An instruction that is a separate step. */
interface InstructionPlace {
  /** In upper case. */
  readonly name: string;
  /** The line that it begins in, counted from 1. */
  readonly line: number;
  readonly isInLastStage: boolean;
  /** Of its step, see {@link placeKey}. */
  readonly key: string;
}

interface Numbered {
  readonly instruction: Instruction;
  /** Number of the stage, counted from 0. */
  readonly stage: number;
  readonly stageName: string | undefined;
  /** Number of the step in its stage, counted from 1. */
  readonly step: number;
}

const withSteps = new Set(['ADD', 'COPY', 'RUN', 'WORKDIR']);

/**
 * Returns the places of instructions that are steps. BuildKit names a step after its stage and its number there:
 * `[build 2/4] RUN make`, `[linux/arm64 2/2] COPY . /`. Only one stage with its platforms has no name.
 * Source: BuildKit's Dockerfile frontend, `dockerfile2llb/convert.go`, `prefixCommand` and `cmdTotal`.
 */
function placesOf(instructions: readonly Instruction[]): readonly InstructionPlace[] {
  const numbered: Numbered[] = [];
  const names: (string | undefined)[] = [];
  let step = 0;
  for (const instruction of instructions) {
    if (instruction.name === 'FROM') {
      const [base = '', , name] = plainWords(instruction.rest);
      // A stage on another stage, or on nothing, pulls no image.
      const pulls = base !== 'scratch' && !names.includes(base.toLowerCase());
      names.push(name?.toLowerCase());
      step = pulls ? 1 : 0;
      if (!pulls) continue;
    } else if (names.length > 0 && withSteps.has(instruction.name)) step += 1;
    else continue;
    const stage = names.length - 1;
    numbered.push({ instruction, stage, stageName: names[stage], step });
  }
  const totals = names.map((_, stage) => numbered.filter(one => one.stage === stage).length);
  return numbered.map(({ instruction, stage, stageName, step }) => {
    const own = stageName ?? (names.length === 1 ? '' : `stage-${stage}`);
    return {
      name: instruction.name,
      line: instruction.line,
      isInLastStage: stage === names.length - 1,
      key: `${own} ${step}/${totals[stage]} ${instruction.name}`,
    };
  });
}

/** Returns what the name of a step says about its place; undefined for a step of no instruction. */
export function placeKey(step: string): string | undefined {
  const [, prefix, number, name] = /^\[([^\]]*?)(\d{1,9}\/\d{1,9})\] (\S+)/.exec(step) ?? [];
  if (prefix === undefined) return undefined;
  const own = prefix.trim().split(' ').at(-1) ?? '';
  const isPlatform = /^[a-z0-9]+\/[a-z0-9]/.test(own);
  return `${isPlatform ? '' : own} ${number} ${name?.toUpperCase()}`;
}

/** Returns the recorded steps as pages show them. One that still runs in a build that is over counts as cancelled. */
export function recordedSteps(steps: readonly BuildStep[], isOver: boolean): readonly ShownStep[] {
  return steps.map(({ number, name, state, startedAt, endedAt, error }) => ({
    number,
    name,
    startedAt,
    endedAt,
    error,
    // A server that was killed has left it running.
    state: state === 'running' && isOver ? 'cancelled' : state,
    spentMs: endedAt === undefined ? undefined : endedAt - startedAt,
  }));
}

/** Returns the steps that the log of a build shows. */
export function loggedSteps(steps: readonly LoggedStep[]): readonly ShownStep[] {
  const unknown = { startedAt: undefined, endedAt: undefined, error: undefined };
  return steps.map(({ number, name, state, spentMs }) => {
    return { ...unknown, number, name, state, spentMs };
  });
}
