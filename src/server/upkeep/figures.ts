import { dayMs, dayOf, tallyKinds } from '../../foundation/telemetry/counted.ts';
import type { Rows } from '../../storage/rows/index.ts';

type FigureRows = Pick<Rows, 'dayCounts' | 'queue' | 'pulls'>;

/** How long figures are kept: a little more than a year, so that a month can be compared with that of the last year. */
const keptDays = 400;
/** Names of callers are kept for less time than counts: they are about people. */
const callersKeptDays = 30;

/** Deletes figures that are older than their time. */
export async function purgeFigures(
  { dayCounts, queue, pulls }: FigureRows,
  signal?: AbortSignal,
): Promise<void> {
  const now = Date.now();
  for (const kind of tallyKinds) {
    const days = kind === 'refused callers' ? callersKeptDays : keptDays;
    await dayCounts.purge(kind, dayOf(now - days * dayMs), signal);
  }
  await pulls.purge(dayOf(now - keptDays * dayMs), signal);
  await queue.purge(now - keptDays * dayMs, signal);
}

/** Returns the last work for figures when the server stops. */
export function flushFigures({ dayCounts, queue, pulls }: FigureRows): () => Promise<void> {
  return async () => {
    await dayCounts.flush();
    await queue.flush();
    await pulls.flush();
  };
}
