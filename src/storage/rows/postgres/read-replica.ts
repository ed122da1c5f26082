import type { ReadReplicaState } from '../../../foundation/telemetry/index.ts';
import { atMost } from '../../../foundation/work.ts';
import type { Call, RowDatabase } from '../row-database.ts';
import { faultOf, startFaultOf } from './postgres-connection.ts';
import { createReadPool, readTogether } from './postgres-database.ts';
import { PostgresCall, postgresStatement } from './postgres-statements.ts';

/** A read replica of PostgreSQL, as the settings name it. */
export interface ReadReplicaUse {
  readonly url: string;
  /** The oldest that its rows may be (ms). */
  readonly maxAgeMs: number;
  /** Called when the replica is used from now on, without a reason, and when it is not used any more. */
  readonly onChange: (reason: string | undefined) => void;
}

/** A database whose reads a replica of PostgreSQL answers. */
export interface ReadReplica {
  /** Reads rows that are at most as old as the setting allows; all else is the primary. */
  readonly database: RowDatabase;
  state(): ReadReplicaState;
  end(): Promise<void>;
}

/** A place in the log of PostgreSQL. */
interface Place {
  readonly system: string;
  readonly timeline: number;
  readonly lsn: bigint;
}

/** A place that the primary had reached at a time. */
interface Reached extends Place {
  /** On the scale of `performance.now()`. */
  readonly at: number;
}

interface PlaceRow {
  readonly system: string;
  readonly timeline: string;
  /** Null where nothing is replayed. */
  readonly lsn: string | null;
  /** 1 for a replica. */
  readonly follows: number;
}

/** Bytes of a page of the log, and of a file of it. */
interface LogSizes {
  readonly page: string;
  readonly segment: string;
}

// A few reads at a time: lists and figures. The primary answers others.
const mostReads = 4;
// Looks have one of their own: slow reads are no sign that the replica does not answer.
const mostConnections = mostReads + 1;
const connectMs = 2000;
// The primary answers a read that takes longer.
const statementMs = 5000;
const responseMs = 6000;
const lookMs = 2000;
const longestPauseMs = 1000;
const looksInAge = 10;

// Numbers of 64 bits stay exact as texts. The name of a file of the log begins with the timeline.
const ofPrimary = postgresStatement<PlaceRow & LogSizes>(
  `SELECT system_identifier || ' ' || current_database() AS system, pg_current_wal_insert_lsn()::text AS lsn,
     left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline, 0 AS follows,
     current_setting('wal_block_size') AS page, pg_size_bytes(current_setting('wal_segment_size'))::text AS segment
   FROM pg_control_system()`,
);
const ofReplica = postgresStatement<PlaceRow>(
  `SELECT system_identifier || ' ' || current_database() AS system, pg_last_wal_replay_lsn()::text AS lsn,
     lpad(to_hex(timeline_id), 8, '0') AS timeline, pg_is_in_recovery() AS follows
   FROM pg_control_system(), pg_control_checkpoint()`,
);

/**
 * Reads from a replica of PostgreSQL what may be some seconds old. It notes which place of its log the primary has reached, and
 * when. A replica that has replayed that place has all rows of that time, so no clocks are compared, and a primary without
 * changes does not look late. Each read asks the replica for its place in the same round trip, before its own statement: the
 * address may lead to another replica each time.
 *
 * @param primary answers while the replica is too old, does not answer, or is not a replica of this database
 */
export function openReadReplica(use: ReadReplicaUse, primary: RowDatabase): ReadReplica {
  const { url, maxAgeMs, onChange } = use;
  const { pool, connect, breakAll } = createReadPool(url, {
    connectMs,
    statementMs,
    responseMs,
    name: 'sluice lists',
    most: mostConnections,
    settings: ['SET default_transaction_read_only = on'],
  });
  const pauseMs = Math.min(longestPauseMs, maxAgeMs / looksInAge);
  let reached: Reached[] = [];
  /** When the primary had what the replica has now; undefined while it is not used. */
  let asOf: number | undefined;
  let reported: string | undefined = 'not asked yet';
  let isClosed = false;
  let reads = 0;
  const began = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const isFresh = (at: number) => performance.now() - at <= maxAgeMs;

  const note = (reason: string | undefined): void => {
    if (reason === reported || isClosed) return;
    reported = reason;
    onChange(reason);
  };
  const notePrimary = async (): Promise<void> => {
    const at = performance.now();
    const row = await primary.read(ofPrimary.get());
    const place = row && placeOf(row);
    reached = reached.filter(({ at }) => isFresh(at));
    if (place) reached.push({ ...place, lsn: endOfRecord(place.lsn, row), at });
  };
  /** Throws an {@link Unusable} unless the place is one that the primary had reached a short time ago. */
  const requireFresh = (row: PlaceRow | undefined): void => {
    const place = row?.follows === 1 ? placeOf(row) : undefined;
    if (!place) throw new Unusable('its address does not lead to a replica');
    const same = reached.filter(({ system }) => system === place.system);
    if (same.length === 0 && reached.length > 0) {
      throw new Unusable('it is the replica of another database');
    }
    const last = same.findLast(
      ({ timeline, lsn, at }) => timeline === place.timeline && lsn <= place.lsn && isFresh(at),
    );
    if (!last) throw new Unusable(`it is more than ${maxAgeMs / 1000} s behind the primary`);
    asOf = last.at;
  };
  /** Runs calls on the replica in one round trip. Throws unless all see rows that are recent. */
  const ask = async (call?: PostgresCall<unknown>) => {
    const asked = ofReplica.get() as PostgresCall<PlaceRow | undefined>;
    const [place, result] = await readTogether(connect, call ? [asked, call] : [asked]);
    requireFresh(asked.resultOf(place));
    return result;
  };
  /** Notes that the replica cannot answer: the primary answers until the next look. */
  const fail = (error: unknown): void => {
    asOf = undefined;
    // At first, no place is known that the primary had reached before.
    if (error instanceof Unusable && performance.now() - began < maxAgeMs) return;
    const fault =
      error instanceof Unusable ? error : startFaultOf(error, 'SLUICE_READ_REPLICA_DATABASE');
    note(fault instanceof Error ? fault.message : String(fault));
  };
  const look = async (): Promise<void> => {
    try {
      // Without the primary, what it had before ages.
      await notePrimary().catch(() => {});
      if (!(await atMost(lookMs, ask()))) throw faultOf(new Error('timeout expired'));
      note(undefined);
    } catch (error) {
      fail(error);
      // What waits for it goes to the primary.
      if (!(error instanceof Unusable)) breakAll();
    }
  };
  const looking = async (): Promise<void> => {
    await look();
    if (!isClosed) timer = setTimeout(looking, pauseMs).unref();
  };
  void looking();

  return {
    database: {
      ...primary,
      async read<T>(call: Call<T>): Promise<T> {
        const isUsed = asOf !== undefined && isFresh(asOf);
        // Reads of several steps cannot begin again.
        const isLeft = !isUsed || reads >= mostReads || !(call instanceof PostgresCall);
        if (isLeft) return primary.read(call);
        reads += 1;
        try {
          return call.resultOf(await ask(call)) as T;
        } catch (error) {
          fail(error);
          return primary.read(call);
        } finally {
          reads -= 1;
        }
      },
    },
    state: () => ({
      isUsed: asOf !== undefined && isFresh(asOf),
      ageMs: asOf === undefined ? undefined : performance.now() - asOf,
    }),
    async end() {
      isClosed = true;
      clearTimeout(timer);
      // Those of a replica that hangs would be waited for.
      breakAll();
      await pool.end();
    },
  };
}

/** The replica answers, and is not used. */
class Unusable extends Error {}

function placeOf({ system, timeline, lsn }: PlaceRow): Place | undefined {
  if (lsn === null) return undefined;
  const [high = '', low = ''] = lsn.split('/');
  return {
    system,
    timeline: Number.parseInt(timeline, 16),
    lsn: (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`),
  };
}

// Headers of pages of the log, also of the first page of a file.
const headerBytes = 24n;
const firstHeaderBytes = 40n;

/**
 * Returns where the last record ends. At the end of a page, the primary reports the place behind the header of the next one, which
 * a replica reaches with the next change only.
 */
function endOfRecord(lsn: bigint, { page, segment }: LogSizes): bigint {
  if (lsn % BigInt(segment) === firstHeaderBytes) return lsn - firstHeaderBytes;
  return lsn % BigInt(page) === headerBytes ? lsn - headerBytes : lsn;
}
