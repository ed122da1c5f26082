import type { RowDatabase } from '../driver/row-database.ts';

/** The clocks at their last reading, in ms. */
export interface ClockReading {
  /** Since the epoch. */
  readonly wallMs: number;
  /** Since the machine started; since the epoch, by the clock of a database that several machines share. */
  readonly elapsedMs: number;
  /** The wall clock is reliable from this moment on (ms since the epoch). */
  readonly steadyFromMs: number;
}

export interface ClockReadingStore {
  read(): Promise<ClockReading | undefined>;
  /** Drops a reading that cannot be written, and one that a later reading overtakes while it waits. */
  write(reading: ClockReading): void;
}

export function createClockReadingStore(database: RowDatabase): ClockReadingStore {
  const read = database.sql<ClockReading>(
    'SELECT wall AS wallMs, uptime AS elapsedMs, steady_from AS steadyFromMs FROM clock_reading WHERE id = 1',
  );
  const write = database.sql(
    `INSERT INTO clock_reading (id, wall, uptime, steady_from) VALUES (1, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET wall = excluded.wall, uptime = excluded.uptime, steady_from = excluded.steady_from`,
  );
  let waiting: ClockReading | undefined;
  let isWriting = false;
  // One after the other: of two changes at once, a database across the network may make the first one last.
  const writeAll = async (): Promise<void> => {
    isWriting = true;
    while (waiting !== undefined) {
      const { wallMs, elapsedMs, steadyFromMs } = waiting;
      waiting = undefined;
      const row = [wallMs, elapsedMs, steadyFromMs].map(Math.round);
      try {
        await database.commit(() => write.run(...row));
      } catch {
        // The next reading is at most minutes away.
      }
    }
    isWriting = false;
  };
  return {
    read: () => database.read(read.get()),
    write(reading) {
      waiting = reading;
      if (!isWriting) void writeAll();
    },
  };
}
