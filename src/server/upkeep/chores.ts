import { SingleFlight } from '../../foundation/single-flight.ts';
import { dayMs, dayOf, tallyKinds } from '../../foundation/telemetry/counted.ts';
import type { Logger, NoteWork } from '../../foundation/telemetry/index.ts';
import type { Rows } from '../../storage/rows/index.ts';

/** A piece of regular work. */
interface Chore {
  /** Description for the log. */
  readonly name: string;
  readonly everyMs: number;
  /** True for a chore that also runs at the start. */
  readonly atStart?: boolean;
  /** @param signal ends long work, which continues at the next turn */
  readonly run: (signal: AbortSignal) => unknown;
}

// A failing chore that runs every second must not fill the log.
const remindMs = 60_000;

/**
 * Runs each chore repeatedly, independently of the others and never twice at once. A failure is logged, at most once
 * a minute, and the chore runs again at its next turn. `stop` ends running chores.
 */
export function startChores(
  chores: readonly Chore[],
  log: Logger,
  note: NoteWork,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const stops = chores.map(chore => startChore(chore, log, note, stopping.signal));
  return {
    async stop() {
      stopping.abort();
      await Promise.all(stops.map(stop => stop()));
    },
  };
}

function startChore(
  { name, everyMs, atStart, run }: Chore,
  log: Logger,
  note: NoteWork,
  signal: AbortSignal,
): () => Promise<void> {
  let failures = 0;
  let loggedAt = Number.NEGATIVE_INFINITY;
  const running = new SingleFlight<void>();
  const attempt = async (): Promise<void> => {
    try {
      await run(signal);
      note(name, 'done');
      if (failures > 0) log.info({ chore: name, failures }, 'regular work succeeds again');
      failures = 0;
      loggedAt = Number.NEGATIVE_INFINITY;
    } catch (err) {
      if (signal.aborted) return;
      note(name, 'failed');
      failures += 1;
      const now = performance.now();
      if (now - loggedAt < remindMs) return;
      loggedAt = now;
      log.error({ chore: name, failures, err }, 'regular work failed: the server will retry it');
    }
  };
  const turn = () => void running.run(attempt);
  if (atStart) turn();
  const timer = setInterval(turn, everyMs).unref();
  return async () => {
    clearInterval(timer);
    await running.settled();
  };
}

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
