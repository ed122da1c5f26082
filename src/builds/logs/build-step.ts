import { Fault } from '../../foundation/fault.ts';
import { traced } from '../../tracing/traces.ts';

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
