import type { RowDatabase } from '../driver/row-database.ts';
import { inSmallSteps } from '../small-steps.ts';
import { gatherCounts } from './gathered-counts.ts';

/** The queue of builds in one hour. */
export interface QueueHour {
  /** Begin of the hour, ms since the epoch. */
  readonly at: number;
  readonly samples: number;
  /** Samples in which builds waited. */
  readonly queued: number;
  readonly mostRunning: number;
  readonly mostWaiting: number;
}

/** Samples of the queue of builds, by hour. They are gathered in memory and written together. */
export interface QueueStore {
  /** Adds a sample. */
  note(at: number, load: { readonly running: number; readonly waiting: number }): void;
  /** Returns the hours from a moment to before another one, with unwritten samples. */
  between(from: number, to: number): Promise<QueueHour[]>;
  /** Writes the samples since the last call. Samples that cannot be written are kept for the next call. */
  flush(): Promise<void>;
  /** Removes the hours before a moment; returns how many. */
  purge(before: number, signal?: AbortSignal): Promise<number>;
}

const hourMs = 3_600_000;

export function createQueueStore(database: RowDatabase): QueueStore {
  const add = database.sql(
    `INSERT INTO queue_hours (at, samples, queued, most_running, most_waiting)
     VALUES (@at, @samples, @queued, @mostRunning, @mostWaiting)
     ON CONFLICT (at) DO UPDATE SET samples = queue_hours.samples + excluded.samples,
       queued = queue_hours.queued + excluded.queued,
       most_running = CASE WHEN queue_hours.most_running > excluded.most_running
         THEN queue_hours.most_running ELSE excluded.most_running END,
       most_waiting = CASE WHEN queue_hours.most_waiting > excluded.most_waiting
         THEN queue_hours.most_waiting ELSE excluded.most_waiting END`,
  );
  const between = database.sql<QueueHour>(
    `SELECT at, samples, queued, most_running AS mostRunning, most_waiting AS mostWaiting
     FROM queue_hours WHERE at >= ? AND at < ? ORDER BY at`,
  );
  const purge = database.sql(
    'DELETE FROM queue_hours WHERE at IN (SELECT at FROM queue_hours WHERE at < ? LIMIT ?)',
  );
  const gathered = gatherCounts<QueueHour>(database, {
    keyOf: ({ at }) => String(at),
    merge: joined,
    *write(hours) {
      for (const hour of hours) yield* add.run({ ...hour });
    },
  });

  return {
    note(at, { running, waiting }) {
      const most = { mostRunning: running, mostWaiting: waiting };
      gathered.add({ at: at - (at % hourMs), samples: 1, queued: waiting > 0 ? 1 : 0, ...most });
    },

    between: (from, to) =>
      gathered.read(
        () => between.all(from, to),
        rows => {
          const hours = new Map(rows.map(hour => [hour.at, hour]));
          for (const hour of gathered.unwritten()) {
            if (hour.at < from || hour.at >= to) continue;
            const known = hours.get(hour.at);
            hours.set(hour.at, known ? joined(known, hour) : hour);
          }
          return [...hours.values()].sort((one, other) => one.at - other.at);
        },
      ),

    flush: gathered.flush,

    purge: (before, signal) => inSmallSteps(database, rows => purge.changes(before, rows), signal),
  };
}

function joined(one: QueueHour, other: QueueHour): QueueHour {
  return {
    at: one.at,
    samples: one.samples + other.samples,
    queued: one.queued + other.queued,
    mostRunning: Math.max(one.mostRunning, other.mostRunning),
    mostWaiting: Math.max(one.mostWaiting, other.mostWaiting),
  };
}
