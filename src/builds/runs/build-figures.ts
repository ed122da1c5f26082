import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { bucketOf, type Tally } from '../../foundation/telemetry/counted.ts';
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

/** Times of a build, ms since the epoch. */
export interface BuildTimes {
  readonly startedAt: number | undefined;
  readonly finishedAt: number;
}

/** Counts a build that has ended: its result, and how long it waited and ran. */
export function countBuild(
  tally: Tally,
  row: Pick<BuildRow, 'plan' | 'createdAt'>,
  result: BuildResult,
  { startedAt, finishedAt }: BuildTimes,
): void {
  const plan = JSON.parse(row.plan) as BuildPlan;
  const recipe = recipeIn(plan)?.recipe ?? 'image';
  tally.add('build results', `${recipe} ${result}`);
  // The time in the queue of a build that never left it says nothing about the queue.
  if (startedAt === undefined) return;
  tally.add('build times', `${recipe} waiting ${bucketOf(startedAt - row.createdAt)}`);
  tally.add('build times', `${recipe} running ${bucketOf(finishedAt - startedAt)}`);
}

/** Counts the steps that a builder has carried out, or had in its cache. */
export function countSteps(tally: Tally, steps: Iterable<CountedStep>): void {
  const counts = new Map<string, number>();
  for (const { number, name, state } of steps) {
    // Sluice's own work has no number, and no cache. Neither has what the builder does before the first step.
    if (number === undefined || name.startsWith('[internal]')) continue;
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  for (const [state, count] of counts) tally.add('build steps', state, count);
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
