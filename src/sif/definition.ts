import { parseReference } from '../oci/reference.ts';
import { OciSyntaxError } from '../oci/syntax-error.ts';
import { substituteArguments } from './definition/arguments.ts';
import { refuseLine, shownText } from './definition/error.ts';
import { copyInstructions } from './definition/files.ts';
import { type DefinitionStage, type Line, parseStage, splitStages } from './definition/parser.ts';
import { postInstructions } from './definition/post.ts';
import { runtimeOf } from './definition/runtime.ts';
import { checkSections } from './definition/sections.ts';
import type { DefinitionRuntime } from './definition-runtime.ts';

const maxStages = 100;
const maxFileLines = 1000;

/** What a definition file is translated to. */
export interface TranslatedDefinition {
  /** Text of a Dockerfile that BuildKit builds; its last stage is the image. */
  readonly dockerfile: string;
  /** What is put into the image besides. */
  readonly runtime: DefinitionRuntime;
}

/** True for a definition file of Singularity or Apptainer: its first line of content is a `Bootstrap` header. */
export function isDefinition(text: string): boolean {
  const [first] = splitStages(text)[0] ?? [];
  return first !== undefined && /^\s*bootstrap\s*:/i.test(first.text);
}

/**
 * Translates a definition file of Singularity or Apptainer to an ordinary build. Pure: the same text gives the
 * same bytes. Throws a `Fault` (400) with the line and the reason for what is not well formed, and for what
 * runs or reads on the machine that builds.
 * Source: Apptainer user guide, Definition Files.
 */
export function translateDefinition(text: string): TranslatedDefinition {
  const parts = splitStages(text);
  if (parts.length > maxStages) refuseLine(1, `it has more than ${maxStages} stages`);
  const lines = parts.map(substituteArguments);
  const stages = lines.map(parseStage);
  const files = stages.flatMap(({ sections }) => sections).filter(({ name }) => name === 'files');
  if (files.reduce((sum, { body }) => sum + body.length, 0) > maxFileLines) {
    refuseLine(files[0]?.line ?? 1, `'%files' has more than ${maxFileLines} lines`);
  }
  const names = new Map<string, string>();
  const blocks = stages.map((stage, position) => {
    checkSections(stage);
    checkHeaders(stage);
    const block = stageInstructions(stage, position + 1, names);
    const name = stage.headers.get('stage')?.value;
    if (name) names.set(name, stageName(position + 1));
    return block;
  });
  const last = stages.at(-1);
  if (last === undefined) refuseLine(1, "there is nothing in it: begin with 'Bootstrap: docker'");
  return {
    dockerfile: `# Translated from a definition file.\n\n${blocks.join('\n')}`,
    runtime: runtimeOf(last, textOf(lines.flat())),
  };
}

function stageInstructions(
  stage: DefinitionStage,
  number: number,
  names: ReadonlyMap<string, string>,
): string {
  const post = postInstructions(stage, `sluice-post-${number}`);
  const copies = stage.sections
    .filter(({ name }) => name === 'files')
    // Files of stages come first, wherever they stand.
    .toSorted((one, other) => Number(one.argument === '') - Number(other.argument === ''))
    .flatMap(section => copyInstructions(section, name => names.get(name)));
  const image = [`FROM ${imageOf(stage)} AS ${stageName(number)}`, ...copies, ...(post?.run ?? [])];
  const blocks = [...(post ? [post.stage] : []), image];
  return blocks.map(block => `${block.join('\n')}\n`).join('\n');
}

function stageName(number: number): string {
  return `sluice-stage-${number}`;
}

const knownHeaders = new Set([
  ...['bootstrap', 'from', 'namespace', 'registry', 'stage'],
  // Of definition files for Singularity 2: what it asked for is what happens anyway.
  'includecmd',
]);

function checkHeaders({ headers, line }: DefinitionStage): void {
  const bootstrap = headers.get('bootstrap');
  if (bootstrap === undefined) refuseLine(line, "its first header is not 'Bootstrap:'");
  if (bootstrap.value.toLowerCase() !== 'docker') {
    refuseLine(
      bootstrap.line,
      `${shownText(`Bootstrap: ${bootstrap.value}`)} is not supported: build from an image of a registry, with 'Bootstrap: docker'`,
    );
  }
  for (const [name, header] of headers) {
    if (knownHeaders.has(name)) continue;
    refuseLine(header.line, `${shownText(name)} is no header of 'Bootstrap: docker'`);
  }
}

function imageOf({ headers, line }: DefinitionStage): string {
  const from = headers.get('from');
  if (!from?.value) refuseLine(line, "it does not say which image it is built from: add 'From:'");
  const parts = [headers.get('registry'), headers.get('namespace'), from];
  const image = parts
    .map(part => part?.value)
    .filter(Boolean)
    .join('/');
  try {
    parseReference(image);
    return image;
  } catch (error) {
    if (error instanceof OciSyntaxError) refuseLine(from.line, error.message);
    throw error;
  }
}

function textOf(lines: readonly Line[]): string {
  return lines.map(({ text }) => `${text}\n`).join('');
}
