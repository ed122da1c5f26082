import type { RowDatabase } from '../driver/row-database.ts';

/** The clocks at their last reading, in ms. */
export interface ClockReading {
  /** Since the epoch. */
  readonly wallMs: number;
  /** Since the machine started. */
  readonly uptimeMs: number;
  /** The wall clock is reliable from this moment on (ms since the epoch). */
  readonly steadyFromMs: number;
}

export interface ClockReadingStore {
  read(): Promise<ClockReading | undefined>;
  /** Drops a reading that cannot be written. */
  write(reading: ClockReading): void;
}

export function createClockReadingStore(database: RowDatabase): ClockReadingStore {
  const read = database.sql<ClockReading>(
    'SELECT wall AS wallMs, uptime AS uptimeMs, steady_from AS steadyFromMs FROM clock_reading WHERE id = 1',
  );
  const write = database.sql(
    `INSERT INTO clock_reading (id, wall, uptime, steady_from) VALUES (1, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET wall = excluded.wall, uptime = excluded.uptime, steady_from = excluded.steady_from`,
  );
  return {
    read: () => database.read(read.get()),
    write({ wallMs, uptimeMs, steadyFromMs }) {
      const row = [wallMs, uptimeMs, steadyFromMs].map(Math.round);
      database.commit(() => write.run(...row)).catch(() => {});
    },
  };
}
