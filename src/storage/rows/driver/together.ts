import type { Call, RowsWork, Sent, StatementResults } from './row-database.ts';

type ResultsOf<Calls extends readonly Call<unknown>[]> = {
  [At in keyof Calls]: Calls[At] extends Call<infer Result> ? Result : never;
};

/**
 * Runs calls, or parts of a change, that do not need each other's results. A database across the network gets their
 * first statements in one round trip, then their second ones, and so on. SQLite runs one after the other.
 *
 * @returns their results, in the same order
 */
export function* together<const Calls extends readonly Call<unknown>[]>(
  calls: Calls,
): RowsWork<ResultsOf<Calls>> {
  const works = calls.map(call => call[Symbol.iterator]());
  const steps = works.map(work => work.next());
  while (steps.some(({ done }) => !done)) {
    const sent = steps.map(({ done, value }) => (done ? [] : (value as readonly object[])));
    const results: StatementResults = yield sent.flat();
    let taken = 0;
    for (const [at, { length }] of sent.entries()) {
      if (steps[at]?.done) continue;
      steps[at] = works[at]?.next(results.slice(taken, taken + length)) as (typeof steps)[number];
      taken += length;
    }
  }
  return steps.map(({ value }) => value) as ResultsOf<Calls>;
}

const lastSent = new WeakSet<Sent>();

/**
 * Runs the last statements of a change together. A database across the network commits the change in the same round trip,
 * so nothing may depend on their results but the result of the change, and no other statement may follow.
 *
 * @returns their results, in the same order
 */
export function* atLast<const Calls extends readonly Call<unknown>[]>(
  calls: Calls,
): RowsWork<ResultsOf<Calls>> {
  const work = together(calls);
  const step = work.next();
  if (step.done) return step.value;
  lastSent.add(step.value);
  const end = work.next(yield step.value);
  if (!end.done) throw new Error('The last calls of a change must be single statements');
  return end.value;
}

/** True for what {@link atLast} has handed to the database. */
export function isLast(sent: Sent): boolean {
  return lastSent.has(sent);
}
