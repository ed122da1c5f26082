import type { DefinitionRuntime } from '../runtime/definition-runtime.ts';
import { type Grow, limitGrowth, namesReferredTo, substituteArguments } from './arguments.ts';
import {
  type DefinitionStage,
  hasBootstrap,
  type Line,
  parseStage,
  refuseLine,
  shownText,
  splitStages,
} from './parser.ts';
import { appRuntimes } from './sections/apps.ts';
import { type StageBase, stageBase } from './sections/bootstrap.ts';
import { checkSections, labelsOf, scriptFile, scriptOf } from './sections.ts';
import { stageInstructions, stageName } from './stage.ts';

const maxStages = 100;
const maxFileLines = 1000;

/** The translation of a definition file. */
export interface TranslatedDefinition {
  /** Text of a Dockerfile that BuildKit builds; its last stage is the image. */
  readonly dockerfile: string;
  /** For base images without a shell; absent where each stage needs one. */
  readonly shellless?: ShelllessBuild;
  /** Data that is also added to the image. */
  readonly runtime: DefinitionRuntime;
  /** Warnings for the caller about a definition file that can be built. */
  readonly warnings: readonly string[];
  /** Names of Singularity images in registries, by their names in the Dockerfile. */
  readonly sifBases: Readonly<Record<string, string>>;
  /** Paths of SIF files in the build context, by their names in the Dockerfile. */
  readonly sifFiles: Readonly<Record<string, string>>;
}

/** A translation that copies files without a program of the image, in stages that do nothing else. */
export interface ShelllessBuild {
  readonly dockerfile: string;
  /** Sources in the build context that must be files, with their lines in the definition file. */
  readonly files: readonly (readonly [path: string, line: number])[];
}

export interface DefinitionOptions {
  /** Values for `{{ NAME }}` by name. They override those of `%arguments`. */
  readonly buildArgs?: Readonly<Record<string, string>> | undefined;
  /** False to skip `%test` at the end. Default: true. */
  readonly runsTest?: boolean | undefined;
  /** A registry that callers can push to, for messages. */
  readonly ownHost?: string | undefined;
  /** True if the request has a build context. Default: false. */
  readonly hasContext?: boolean | undefined;
}

/**
 * Returns true for a definition file of Singularity or Apptainer: it begins with headers, and one of them is
 * `Bootstrap`.
 */
export function isDefinition(text: string): boolean {
  return hasBootstrap(text);
}

/**
 * Translates a definition file of Singularity or Apptainer to an ordinary build. Pure: the same text and options
 * give the same bytes. Throws a `Fault` (400) with the line and the reason for malformed text, and for
 * anything that runs or reads files on the build machine.
 * Source: Apptainer user guide, Definition Files.
 */
export function translateDefinition(
  text: string,
  options: DefinitionOptions = {},
): TranslatedDefinition {
  const { buildArgs = {}, runsTest = true, hasContext = false } = options;
  const { ownHost = 'registry.example.com' } = options;
  const parts = splitStages(text);
  if (parts.length > maxStages) refuseLine(1, `it has more than ${maxStages} stages`);
  const grow = limitGrowth();
  const lines = parts.map(part => substituteArguments(part, buildArgs, grow));
  const stages = lines.map(parseStage);
  const fileSections = stages
    .flatMap(({ sections }) => sections)
    .filter(({ name }) => name === 'files' || name === 'appfiles');
  if (fileSections.reduce((sum, { body }) => sum + body.length, 0) > maxFileLines) {
    refuseLine(fileSections[0]?.line ?? 1, `'%files' has more than ${maxFileLines} lines`);
  }
  const sifs = { registry: new Map<string, string>(), context: new Map<string, string>() };
  let isOnSif = false;
  const warnings: string[] = unusedArguments(text, buildArgs);
  const bases = stages.map(stage => {
    checkSections(stage);
    const found = stageBase(stage, { ownHost, hasContext });
    if (found.warning !== undefined) warnings.push(found.warning);
    isOnSif = found.sif !== undefined;
    return found.sif ? { ...found, image: nameOfSif(found.image, found.sif, sifs) } : found;
  });
  const translate = (isPlain: boolean, counted: Grow) => {
    const names = new Map<string, string>();
    const made = stages.map((stage, position) => {
      const number = position + 1;
      const common = { number, names, runsTest, grow: counted, isPlain };
      const instructions = stageInstructions(stage, bases[position] as StageBase, common);
      const name = stage.headers.get('stage')?.value;
      if (name) names.set(name, stageName(number));
      return instructions;
    });
    const blocks = made.map(({ text: block }) => block).join('\n');
    return { made, dockerfile: `${heading(sifs)}\n${blocks}` };
  };
  const { made, dockerfile } = translate(false, grow);
  const last = stages.at(-1);
  if (last === undefined) refuseLine(1, "it is empty: begin with 'Bootstrap: docker'");
  const plain = made.flatMap(stage => stage.plain ?? []);
  return {
    dockerfile,
    ...(plain.length > 0
      ? {
          shellless: {
            dockerfile: translate(true, () => {}).dockerfile,
            files: plain.flatMap(({ files }) => files),
          },
        }
      : {}),
    runtime: {
      ...runtimeOf(last, textOf(lines.flat())),
      ...(isOnSif ? { isOnSif: true as const } : {}),
    },
    warnings,
    sifBases: byName(sifs.registry),
    sifFiles: byName(sifs.context),
  };
}

/** The Dockerfile's names of Singularity images: of those in registries, and of those in the build context. */
type SifNames = Readonly<Record<'registry' | 'context', Map<string, string>>>;

/** Returns comments that explain the names in the Dockerfile, which a dry run shows. */
function heading({ registry, context }: SifNames): string {
  const lines = [
    ...[...registry].map(
      ([image, name]) => `# ${name} is made of the Singularity image ${image}.\n`,
    ),
    ...[...context].map(
      ([path, name]) => `# ${name} is made of the file ${shownText(path)} in the build context.\n`,
    ),
  ];
  return `# Translated from a definition file.\n${lines.join('')}`;
}

/** The Dockerfile's name of a Singularity image: BuildKit has no name for it until an image is made of it. */
function nameOfSif(image: string, place: keyof SifNames, all: SifNames): string {
  const names = all[place];
  const name = names.get(image) ?? `sluice-${prefixes[place]}-${names.size + 1}`;
  names.set(image, name);
  return name;
}

const prefixes = { registry: 'sif', context: 'file' } as const;

function byName(names: ReadonlyMap<string, string>): Readonly<Record<string, string>> {
  return Object.fromEntries([...names].map(([image, name]) => [name, image]));
}

function unusedArguments(text: string, given: Readonly<Record<string, string>>): string[] {
  const used = namesReferredTo(text);
  return Object.keys(given)
    .filter(name => !used.has(name))
    .map(
      name =>
        `'buildArgs.${name.slice(0, 80)}' is not used: the definition file does not refer to it`,
    );
}

function textOf(lines: readonly Line[]): string {
  return lines.map(({ text }) => `${text}\n`).join('');
}

/** Returns the runtime data that a stage specifies, in the form that `apptainer build` writes. */
function runtimeOf(stage: DefinitionStage, text: string): DefinitionRuntime {
  const headers = [...stage.headers].map(([name, { value }]) => [name, value]);
  const apps = appRuntimes(stage);
  const script = (name: string) => {
    const found = scriptOf(stage, name);
    return found && scriptFile(found);
  };
  return {
    text,
    headers: Object.fromEntries(headers),
    labels: labelsOf(stage, 'labels'),
    environment: scriptOf(stage, 'environment')?.text,
    help: helpOf(stage),
    runscript: script('runscript'),
    startscript: script('startscript'),
    test: script('test'),
    ...(apps === undefined ? {} : { apps }),
  };
}

function helpOf(stage: DefinitionStage): string | undefined {
  const help = scriptOf(stage, 'help');
  return help && `${help.text}\n`;
}
