import { readFile, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { maskAddresses } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { traced } from '../../tracing/traces.ts';
import { appendBelow } from './append-below.ts';

/** A step of a build, as it is kept beside the log. Times are ms since the epoch. */
export interface BuildStep {
  /** Identifies the step within one attempt. */
  readonly key: string;
  /** The step's lines in the log begin with `#<number> `. Undefined for work of Sluice itself. */
  readonly number?: number | undefined;
  readonly name: string;
  readonly state: StepState;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  readonly error?: string | undefined;
}

export type StepState = 'running' | 'done' | 'cached' | 'failed' | 'cancelled';

/** The layers of a finished image for one platform, the lowest first. */
export interface PlatformLayers {
  /** `linux/amd64` */
  readonly platform: string;
  readonly layers: readonly RecordedLayer[];
}

export interface RecordedLayer {
  readonly digest: string;
  readonly size: number;
  /** What made it, from the history of the image; undefined where the history does not say it. */
  readonly by?: string | undefined;
}

/** What is known about the course of a build: of its last attempt. */
export interface StepRecord {
  /** In the order in which they were first reported. */
  readonly steps: readonly BuildStep[];
  readonly platforms: readonly PlatformLayers[];
}

/** Receives the course of a build. */
export interface StepWriter {
  /** Begins a new attempt: the steps of earlier ones do not count any more. */
  restartSteps(): void;
  /** Records a step, or its new state. */
  step(step: BuildStep): void;
  /** Records the layers of the image. */
  layers(platforms: readonly PlatformLayers[]): void;
}

/**
 * Records a piece of work as a step, with its failure if it fails.
 *
 * @param number of the step in the log, if its lines have one
 */
export async function asStep<T>(
  log: Pick<StepWriter, 'step'>,
  name: string,
  work: () => Promise<T>,
  number?: number,
): Promise<T> {
  const begun = { key: name, name, number, startedAt: Date.now() };
  log.step({ ...begun, state: 'running' });
  try {
    const result = await traced(name, {}, work);
    log.step({ ...begun, state: 'done', endedAt: Date.now() });
    return result;
  } catch (error) {
    // Everybody with the id of the build reads this: only a `Fault` says nothing secret.
    const reason = error instanceof Fault ? error.message : undefined;
    log.step({ ...begun, state: 'failed', endedAt: Date.now(), error: reason });
    throw error;
  }
}

/** Writes the record of a build's steps into a file: a line of JSON for each change. */
export interface StepRecorder extends StepWriter {
  /** Resolves when all changes are in the file, or are lost. */
  written(): Promise<void>;
  /** Returns the steps of the last attempt, each in its last state. */
  lastSteps(): Iterable<Pick<BuildStep, 'number' | 'name' | 'state'>>;
}

// A build of more steps has them in its log only.
const maxSteps = 500;
const maxBytes = 1024 * 1024;
const maxName = 400;
const maxPlatforms = 16;
const maxLayers = 200;
const writeAfterMs = 500;

/** The lines of the file. */
type Line = { readonly again: true } | { readonly layers: readonly PlatformLayers[] } | BuildStep;

/** Appends to the record in a file. A server that dies in between leaves a shorter record. */
export function recordSteps(path: string): StepRecorder {
  const seen = new Map<string, Pick<BuildStep, 'number' | 'name' | 'state'>>();
  let pending: Line[] = [];
  let written = 0;
  let timer: NodeJS.Timeout | undefined;
  let chain: Promise<void> = Promise.resolve();

  const append = async () => {
    // The file may end within a line, which a killed server has left.
    const text = pending.map(line => `\n${JSON.stringify(line)}\n`).join('');
    pending = [];
    written += text.length;
    if (text === '' || written > maxBytes) return;
    await appendBelow(dirname(path), path, text);
  };
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    // A full disk costs a part of the record, never the build.
    chain = chain.then(append).catch(() => undefined);
    return chain;
  };
  const add = (line: Line) => {
    pending.push(line);
    timer ??= setTimeout(flush, writeAfterMs).unref();
  };

  return {
    restartSteps() {
      seen.clear();
      add({ again: true });
    },
    step(step) {
      if (!seen.has(step.key) && seen.size >= maxSteps) return;
      const { number, name, state } = step;
      seen.set(step.key, { number, name: name.slice(0, maxName), state });
      const { error } = step;
      // Times have fractions that nobody sees.
      const startedAt = Math.round(step.startedAt);
      const endedAt = step.endedAt && Math.round(step.endedAt);
      add({
        ...step,
        startedAt,
        endedAt,
        key: cleanText(step.key),
        name: cleanText(step.name),
        error: error === undefined ? undefined : cleanText(error),
      });
    },
    layers(platforms) {
      const layers = platforms.slice(0, maxPlatforms).map(one => ({
        platform: cleanText(one.platform),
        layers: one.layers.slice(-maxLayers).map(({ by, ...layer }): RecordedLayer => {
          return { ...layer, by: by && cleanText(by) };
        }),
      }));
      add({ layers });
    },
    written: flush,
    lastSteps: () => seen.values(),
  };
}

/** Reads the record in a file; undefined for a build without one. */
export async function readSteps(path: string): Promise<StepRecord | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return undefined;
  }
  const steps = new Map<string, BuildStep>();
  let platforms: readonly PlatformLayers[] = [];
  for (const line of text.split('\n')) {
    const entry = line === '' ? undefined : lineOf(line);
    if (!entry) continue;
    if ('again' in entry) {
      steps.clear();
      platforms = [];
    } else if ('layers' in entry) platforms = entry.layers;
    else steps.set(entry.key, entry);
  }
  return { steps: [...steps.values()], platforms };
}

export const removeSteps = (path: string): Promise<void> => rm(path, { force: true });

/** Returns undefined for a line that was not completely written. */
function lineOf(text: string): Line | undefined {
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}

/** Everyone who knows the id of a build can read its record, as its log. */
function cleanText(text: string): string {
  const shown = maskAddresses(stripVTControlCharacters(text));
  return shown.length > maxName ? `${shown.slice(0, maxName)}…` : shown;
}
