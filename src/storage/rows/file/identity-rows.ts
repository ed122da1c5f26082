import type { RowDatabase } from '../row-database.ts';

/** Says which content belongs to the rows, and what else the rows need. */
export interface IdentityStore {
  /** Returns the id that the rows share with their content; undefined for rows that never had content. */
  id(): Promise<string | undefined>;
  /** Gives the rows an id where they have none, or replaces the one they have. */
  setId(id: string, options?: { readonly replaces?: boolean }): Promise<void>;
  /** True when rows refer to content that must exist. */
  needsContent(): Promise<boolean>;
  /** True when rows hold secrets that were encrypted with the key of the data directory. */
  hasSecrets(): Promise<boolean>;
  /** Reads a row. Throws when that fails. */
  proveRead(): Promise<void>;
  /** Changes a row durably. Throws when that fails within the time. */
  proveWrite(patienceMs: number): Promise<void>;
}

export function createIdentityStore(database: RowDatabase): IdentityStore {
  const id = database.sql('SELECT id FROM data_directory').pluck<string>();
  const forget = database.sql('DELETE FROM data_directory');
  const setId = database.sql(
    'INSERT INTO data_directory (id) SELECT ? WHERE NOT EXISTS (SELECT 1 FROM data_directory)',
  );
  const holds = (rows: string) => database.sql(`SELECT EXISTS (${rows})`).pluck<number>();
  const needsContent = holds(
    `SELECT 1 FROM hosted_blobs UNION ALL SELECT 1 FROM hosted_manifests
     UNION ALL SELECT 1 FROM requests WHERE expires_at > @now AND revoked_at IS NULL`,
  );
  const hasSecrets = holds(
    `SELECT 1 FROM credentials UNION ALL SELECT 1 FROM platform_token_pairs
     UNION ALL SELECT 1 FROM builds WHERE sealed_grant IS NOT NULL AND finished_at IS NULL
     UNION ALL SELECT 1 FROM requests
       WHERE expires_at > @now AND revoked_at IS NULL AND body LIKE '%"grant":"%'`,
  );
  // SQLite would not write an unchanged row.
  const write = database.sql('UPDATE data_directory SET proof = 1 - proof');

  return {
    id: () => database.read(id.get()),
    setId: (value, { replaces = false } = {}) =>
      database.write(function* () {
        if (replaces) yield* forget.run();
        yield* setId.run(value);
      }),
    needsContent: async () => (await database.read(needsContent.get({ now: Date.now() }))) === 1,
    hasSecrets: async () => (await database.read(hasSecrets.get({ now: Date.now() }))) === 1,
    async proveRead() {
      await database.read(id.get());
    },
    proveWrite: patienceMs => database.write(() => write.run(), { patienceMs }),
  };
}

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
