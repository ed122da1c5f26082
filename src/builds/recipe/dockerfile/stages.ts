import { defaultPlatform, formatPlatform, type Platform } from '../../../oci/naming.ts';
import { frontendImage } from './frontend-image.ts';
import {
  type Instruction,
  malformed,
  parseDockerfile,
  parseInstruction,
  plainWords,
  quotedWords,
  valuesOf,
} from './instructions.ts';
import { Budget, WordError } from './words/shell-pattern.ts';
import { expandWord } from './words/shell-words.ts';

/** The number of a stage, or the name of an image. */
type StageOrImage = number | string;

/** A source that a stage copies from or mounts. */
interface StageSource {
  readonly from: StageOrImage;
  readonly line: number;
  readonly use: 'COPY' | 'RUN';
}

export interface Stage {
  /** In lower case. */
  readonly name?: string;
  readonly line: number;
  readonly base: StageOrImage;
  /** The platform that FROM asks for, as it is written. */
  readonly platform?: string;
  readonly sources: readonly StageSource[];
}

const knownInstructions = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(
    ' ',
  ),
);

/** Options and variables for reading the words of a file. */
interface Scope {
  readonly variables: Map<string, string>;
  readonly escapeMark: string;
  readonly budget: Budget;
}

/** A source by name: an image, unless a stage has that name. */
interface NamedSource {
  readonly name: string;
  readonly line: number;
  readonly use: 'COPY' | 'RUN';
}

/**
 * Returns the stages of a Dockerfile in their order, with resolved names. Throws a `Fault` with the line for content
 * that no builder would accept. Source: Dockerfile reference, FROM, COPY --from, RUN --mount, Understand how ARG and
 * FROM interact.
 */
export function readStages(dockerfile: string, options: StageOptions): readonly Stage[] {
  const { instructions, escapeMark } = parseDockerfile(dockerfile);
  const hasFrontend = frontendImage(dockerfile) !== undefined;
  const lastName = stageName(instructions.findLast(({ name }) => name === 'FROM'));
  const variables = automaticVariables(options, lastName);
  const scope: Scope = { variables, escapeMark, budget: new Budget() };
  const stages: { stage: Omit<Stage, 'sources'>; sources: NamedSource[] }[] = [];
  const byName = new Map<string, number>();
  for (const instruction of instructions) {
    const { name, line } = instruction;
    const stage = stages.at(-1);
    if (!knownInstructions.has(name) && !hasFrontend)
      malformed(line, `'${name}' is not an instruction`);
    if (name === 'FROM') {
      const own = stageName(instruction);
      const base = baseName(instruction, scope);
      const [platform] = valuesOf(instruction.flags, 'platform');
      stages.push({
        stage: {
          line,
          base: byName.get(base) ?? base,
          ...(own === undefined ? {} : { name: own }),
          ...(platform ? { platform: expandedText(platform, scope, line) } : {}),
        },
        sources: [],
      });
      if (own !== undefined) byName.set(own, stages.length - 1);
    } else if (stage) stage.sources.push(...sourcesOf(instruction, scope));
    else if (name === 'ARG') setArguments(instruction, scope, options.buildArgs ?? {});
    else malformed(line, `${name} comes before the first FROM`);
  }
  if (stages.length === 0) malformed(1, 'it has no FROM');
  return stages.map(({ stage, sources }) => ({
    ...stage,
    sources: sources.map(source => resolvedSource(source, byName, stages.length)),
  }));
}

function resolvedSource(
  { name, ...source }: NamedSource,
  byName: ReadonlyMap<string, number>,
  count: number,
): StageSource {
  const number = source.use === 'COPY' ? stageNumber(name, count, source.line) : undefined;
  return { ...source, from: number ?? byName.get(name.toLowerCase()) ?? name };
}

/** Returns the name that FROM gives to its stage, in lower case. */
function stageName(from: Instruction | undefined): string | undefined {
  if (!from) return undefined;
  const [, as, name = '', ...others] = plainWords(from.rest);
  if (as === undefined && plainWords(from.rest).length === 1) return undefined;
  if (as?.toLowerCase() !== 'as' || name === '' || others.length > 0) {
    malformed(from.line, 'FROM requires an image, or an image, AS and the name of a stage');
  }
  const lower = name.toLowerCase();
  if (/^[a-z][a-z0-9._-]*$/.test(lower)) return lower;
  return malformed(
    from.line,
    `'${name}' is not the name of a stage: it starts with a letter, then letters, digits and . _ -`,
  );
}

function baseName(from: Instruction, scope: Scope): string {
  const [text = ''] = plainWords(from.rest);
  const base = expandedText(text, scope, from.line);
  const remedy =
    "give ARG a default value, or send one with the request ('buildArgs', sluice build --build-arg)";
  if (base === '') malformed(from.line, `'${text}' is empty: ${remedy}`);
  if (base !== text && /^[:@/]|[:@/]$/.test(base)) {
    malformed(from.line, `'${text}' has a variable without a value: ${remedy}`);
  }
  return base;
}

function setArguments(
  argument: Instruction,
  scope: Scope,
  buildArgs: Readonly<Record<string, string>>,
): void {
  const { variables, escapeMark } = scope;
  const words = quotedWords(argument.rest, escapeMark);
  if (words.length === 0) malformed(argument.line, 'ARG requires a name');
  for (const word of words) {
    const equals = word.indexOf('=');
    const name = equals < 0 ? word : word.slice(0, equals);
    if (name === '') malformed(argument.line, 'ARG requires a name before the =');
    if (Object.hasOwn(buildArgs, name)) variables.set(name, buildArgs[name] as string);
    else if (equals >= 0) {
      const value = expandedText(word.slice(equals + 1), scope, argument.line);
      variables.set(name, value);
    }
  }
}

function sourcesOf(instruction: Instruction, scope: Scope): readonly NamedSource[] {
  const { name, line, flags, rest } = instruction;
  if (name === 'COPY') {
    return valuesOf(flags, 'from')
      .filter(from => from !== '')
      .map(from => ({ name: plainName(from, scope, line), line, use: 'COPY' as const }));
  }
  if (name === 'RUN') {
    return valuesOf(flags, 'mount')
      .map(mount => mountSource(mount, line))
      .filter(from => from !== undefined && from !== '')
      .map(from => ({ name: from as string, line, use: 'RUN' as const }));
  }
  if (name !== 'ONBUILD') return [];
  // The trigger runs in the stages that are built on this one: they require its sources.
  const trigger = parseInstruction(rest, '\\', line);
  if (trigger.name === 'ONBUILD') malformed(line, 'ONBUILD cannot trigger another ONBUILD');
  return sourcesOf(trigger, { ...scope, escapeMark: '\\' });
}

/**
 * Returns the sources that `ONBUILD` triggers of a base image copy from and mount in a Dockerfile with these stages. Throws
 * a `Fault` for a trigger that no builder would accept.
 */
export function triggerSources(
  triggers: readonly string[],
  stages: readonly Stage[],
): readonly StageSource[] {
  const scope: Scope = { variables: new Map(), escapeMark: '\\', budget: new Budget() };
  const named = stages.flatMap(({ name }, number) =>
    name === undefined ? [] : [[name, number] as const],
  );
  const byName = new Map(named);
  return triggers
    .flatMap(trigger => parseDockerfile(trigger).instructions)
    .flatMap(instruction => sourcesOf(instruction, scope))
    .map(source => resolvedSource(source, byName, stages.length));
}

// Returns the name. Builders reject variables here, and any other text that would first have to be expanded.
function plainName(from: string, scope: Scope, line: number): string {
  if (expandedText(from, { ...scope, variables: new Map() }, line) === from) return from;
  return malformed(
    line,
    `COPY --from=${from} contains a variable: declare the image as a stage with FROM, and copy from that stage`,
  );
}

// Returns the number of a stage. A number that fits into 64 bits is never the name of an image.
function stageNumber(name: string, count: number, line: number): number | undefined {
  if (!/^[+-]?\d{1,99}$/.test(name)) return undefined;
  const number = BigInt(name.replace(/^\+/, ''));
  if (BigInt.asIntN(64, number) !== number) return undefined;
  if (number >= 0n && number < count) return Number(number);
  return malformed(line, `COPY --from=${name}: the stages are numbered from 0 to ${count - 1}`);
}

function expandedText(text: string, scope: Scope, line: number): string {
  try {
    return expandWord(text, scope);
  } catch (error) {
    if (error instanceof WordError) malformed(line, error.message);
    throw error;
  }
}

/**
 * Returns the variables that FROM may use without an ARG. Source: Dockerfile reference, Automatic platform ARGs in the
 * global scope.
 */
function automaticVariables(
  options: StageOptions,
  lastStage: string | undefined,
): Map<string, string> {
  const { platform = defaultPlatform, builderPlatform = platform, buildArgs = {} } = options;
  const variables = new Map([
    ...platformVariables('BUILD', builderPlatform),
    ...platformVariables('TARGET', platform),
    ['TARGETSTAGE', options.target ?? lastStage ?? 'default'] as const,
  ]);
  for (const name of variables.keys()) {
    if (Object.hasOwn(buildArgs, name)) variables.set(name, buildArgs[name] as string);
  }
  return variables;
}

function platformVariables(prefix: string, platform: Platform): [string, string][] {
  return [
    [`${prefix}PLATFORM`, formatPlatform(platform)],
    [`${prefix}OS`, platform.os],
    [`${prefix}OSVERSION`, ''],
    [`${prefix}ARCH`, platform.architecture],
    [`${prefix}VARIANT`, platform.variant ?? ''],
  ];
}

/**
 * Returns the source of a mount of RUN: the last `from` among its comma-separated fields, which may be quoted as in RFC
 * 4180. Throws a `Fault` for unclosed quotes and for a variable. Source: Dockerfile reference, RUN --mount.
 */
function mountSource(mount: string, line: number): string | undefined {
  let source: string | undefined;
  for (const field of fieldsOf(mount, line)) {
    const equals = field.indexOf('=');
    if (equals < 0 || field.slice(0, equals).toLowerCase() !== 'from') continue;
    source = field.slice(equals + 1);
    if (/\$./.test(source)) {
      malformed(
        line,
        `RUN --mount=from=${source} contains a variable: declare the image as a stage with FROM, and mount from that stage`,
      );
    }
  }
  return source;
}

function fieldsOf(text: string, line: number): readonly string[] {
  const fields: string[] = [];
  let rest = text;
  for (;;) {
    const quoted = /^"((?:[^"]|"")*)"(,|$)/s.exec(rest);
    const field = quoted ?? /^([^,"]*)(,|$)/.exec(rest);
    if (!field) return malformed(line, `a quote in --mount=${text} is not closed`);
    const [whole, value = '', comma] = field;
    fields.push(quoted ? value.replaceAll('""', '"') : value);
    if (comma !== ',') return fields;
    rest = rest.slice(whole.length);
  }
}

/** Options that decide the values of variables in FROM, and which stages are required. */
export interface StageOptions {
  /** Override the defaults of ARG before the first FROM. */
  readonly buildArgs?: Readonly<Record<string, string>>;
  /** Target platform: the value of TARGETPLATFORM and related variables. Default: linux/amd64. */
  readonly platform?: Platform;
  /** Platform of the builder: the value of BUILDPLATFORM and related variables. Default: `platform`. */
  readonly builderPlatform?: Platform;
  /** The stage to build. Default: the last one. */
  readonly target?: string;
}
