import { recipeKindNamed } from '../../../builds/recipe/recipe-kinds.ts';
import { sectionAt, splitStages } from '../../../images/sif/definition/parser.ts';
import type { ShownStep } from '../shown-step.ts';
import type { RecipeLine } from './recipe-line.ts';

const definition = recipeKindNamed('definition');

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
  const [, section] = /^'%(\w+)'/.exec(definition.partOf(step)?.name ?? '') ?? [];
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
