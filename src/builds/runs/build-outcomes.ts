import { Fault, isDiskFull, isStorageLost } from '../../foundation/fault.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import type { BuildOutcome, BuildRow } from '../../storage/rows/index.ts';
import { BuildCancelled, BuildTooLong } from '../build-limits.ts';
import { BuilderLost } from '../builder/builder-refusals.ts';
import type { BuildStep } from '../logs/build-step.ts';
import { type BuildPlan, recipeIn } from '../plan/build-plan.ts';

/** How a build can end. All but the first two are failures, by what has to change. */
export const buildResults = [
  'succeeded',
  'cancelled',
  'recipe',
  'registry',
  'push',
  'builder',
  'time limit',
  'disk',
  'not allowed',
  'server',
] as const;
export type BuildResult = (typeof buildResults)[number];

/** Durations of a build that has left the queue (ms). */
export interface BuildDurations {
  readonly waited: number;
  readonly ran: number;
}

/**
 * Counts a build that has ended: its result, and how long it waited and ran.
 *
 * @param durations absent for a build that never left the queue: its time there says nothing about the queue
 */
export function countBuild(
  tally: Tally,
  row: Pick<BuildRow, 'plan'>,
  result: BuildResult,
  durations?: BuildDurations,
): void {
  const plan = JSON.parse(row.plan) as BuildPlan;
  const recipe = recipeIn(plan)?.recipe ?? 'image';
  tally.add('build results', { recipe, result });
  if (!durations) return;
  tally.observe('build times', { recipe, phase: 'waiting' }, durations.waited);
  tally.observe('build times', { recipe, phase: 'running' }, durations.ran);
}

/** Counts the steps that a builder has carried out, or had in its cache. */
export function countSteps(tally: Tally, steps: Iterable<CountedStep>): void {
  const counts = new Map<string, number>();
  for (const { number, name, state } of steps) {
    // Sluice's own work has no number, and no cache. Neither has what the builder does before the first step.
    if (number === undefined || name.startsWith('[internal]')) continue;
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  for (const [state, count] of counts) tally.add('build steps', { state }, count);
}

type CountedStep = Pick<BuildStep, 'number' | 'name' | 'state'>;

/** Returns what a failed build counts as. */
export function resultOf(error: unknown): BuildResult {
  if (error instanceof BuildCancelled) return 'cancelled';
  if (error instanceof BuildTooLong) return 'time limit';
  if (error instanceof BuilderLost) return 'builder';
  if (isDiskFull(error)) return 'disk';
  if (!(error instanceof Fault)) return 'server';
  if (error.cause instanceof BuilderLost || error.kind === 'not-provided') return 'builder';
  if (error.phase === 'push') return 'push';
  if (error.phase === 'upstream' || error.phase === 'credentials') return 'registry';
  if (error.kind === 'unauthorized' || error.kind === 'denied') return 'not allowed';
  return error.status < 500 ? 'recipe' : 'server';
}

const maxStarts = 3;

/** The reason for a build that failed because of a fault of the service. */
export const ownFailure =
  'The service failed: ask the operator for the details, which its log has under the id of the build';

/** Returns why a build of an earlier process does not start again; undefined for one that may start. */
export function unableToResume(
  { starts }: Pick<BuildRow, 'starts'>,
  isAllowed: boolean,
): (BuildOutcome & { readonly succeeded: false }) | undefined {
  if (!isAllowed) {
    return {
      succeeded: false,
      reason:
        'The operator has restricted builds since this build was requested: log in, and request the build again',
    };
  }
  if (starts < maxStarts) return undefined;
  return {
    succeeded: false,
    reason: `The server ended unexpectedly ${starts} times while this build ran, so the build does not start again: ask the operator for the reason in the log of the server, for example too little memory`,
  };
}

/** Returns why a build has failed, for its user. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof Fault) return cause.message;
  if (isDiskFull(cause))
    return 'The disk of the service is full: ask the operator to free disk space';
  return ownFailure;
}

/**
 * Returns the end of the log of a failed build. The last lines of its output are indented: they would read like messages
 * of the service otherwise, also to what finds the steps of a log.
 */
export function failureText(reason: string): string {
  return `\nThe build failed: ${reason.replaceAll('\n', '\n  ')}\n`;
}

/**
 * Returns true if neither the recipe nor an upstream is the reason. The build itself may have ended a builder that was
 * lost during the build.
 */
export function isOwnFailure(error: unknown): boolean {
  if (!(error instanceof Fault) || isStorageLost(error)) return true;
  return error.cause instanceof BuilderLost && !error.cause.hadBegun;
}
