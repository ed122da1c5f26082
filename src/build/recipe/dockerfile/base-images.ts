import { formatReference, parseReference } from '../../../oci/reference.ts';
import { OciSyntaxError } from '../../../oci/syntax-error.ts';
import { frontendImage } from './frontend-image.ts';
import { malformed } from './malformed.ts';
import { readStages, type Stage, type StageOptions } from './stages.ts';

/** An image that a builder pulls for a Dockerfile. */
export interface BaseImage {
  /** Its full name, `registry/repository[:tag][@digest]`. */
  readonly reference: string;
  /** The line of the instruction that names it, counted from 1. */
  readonly line: number;
  /** `syntax` for the image of the program that reads the Dockerfile. */
  readonly use: 'FROM' | 'COPY' | 'RUN' | 'syntax';
}

export interface BaseImageOptions extends StageOptions {
  /** Names of named build contexts, which take the place of images and stages. */
  readonly namedContexts?: readonly string[];
}

/**
 * The images that building a Dockerfile pulls, each once, in the order of their use: those of FROM, COPY
 * --from and RUN --mount=from= in the stages that the target needs. `scratch` is none. What ONBUILD
 * triggers of these images pull in turn is not known here.
 * Throws a `Fault` with the line for a Dockerfile that no builder would take.
 * Source: Dockerfile reference.
 */
export function baseImagesOf(dockerfile: string, options: BaseImageOptions = {}): BaseImage[] {
  const images = new Map<string, BaseImage>();
  const contexts = new Set((options.namedContexts ?? []).map(name => fullName(name) ?? name));
  const add = (name: string, line: number, use: BaseImage['use']) => {
    if (name === 'scratch') return;
    const reference = fullName(name) ?? malformed(line, nameProblem(name));
    if (contexts.has(reference) || images.has(reference)) return;
    images.set(reference, { reference, line, use });
  };
  const frontend = frontendImage(dockerfile);
  if (frontend) add(frontend.reference, frontend.line, 'syntax');
  const stages = readStages(dockerfile, options);
  for (const stage of neededStages(stages, options.target)) {
    const isReplaced = stage.name !== undefined && contexts.has(fullName(stage.name) ?? '');
    if (typeof stage.base === 'string' && !isReplaced) add(stage.base, stage.line, 'FROM');
    for (const { from, line, use } of stage.sources) {
      if (typeof from === 'string') add(from, line, use);
    }
  }
  return [...images.values()].sort((one, other) => one.line - other.line);
}

function neededStages(stages: readonly Stage[], target: string | undefined): readonly Stage[] {
  const wanted = target?.toLowerCase();
  const start =
    wanted === undefined ? stages.at(-1) : stages.findLast(stage => stage.name === wanted);
  if (!start) malformed(1, `there is no stage '${target}' to build`);
  const needed = new Set([start]);
  for (const stage of needed) {
    for (const other of [stage.base, ...stage.sources.map(({ from }) => from)]) {
      const found = typeof other === 'number' ? stages[other] : undefined;
      if (found) needed.add(found);
    }
  }
  return stages.filter(stage => needed.has(stage));
}

function fullName(name: string): string | undefined {
  try {
    return formatReference(parseReference(name));
  } catch (error) {
    if (error instanceof OciSyntaxError) return undefined;
    throw error;
  }
}

function nameProblem(name: string): string {
  try {
    parseReference(name);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}
