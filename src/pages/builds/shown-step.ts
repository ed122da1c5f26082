import type { BuildStep, LoggedStep, StepState } from '../../builds/index.ts';

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

/** Returns the steps in the record of a build. */
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
