import { Fault, isDiskFull } from '../../foundation/fault.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import type { BuildRow } from '../../storage/rows/index.ts';
import { BuilderLost } from '../builder/builder-refusals.ts';
import { BuildCancelled } from '../limits/refusals.ts';
import { BuildTooLong } from '../limits/time-limit.ts';
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

export type CountedStep = Pick<BuildStep, 'number' | 'name' | 'state'>;

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
