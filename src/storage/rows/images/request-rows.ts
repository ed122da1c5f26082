import { atLast, type Call, type RowDatabase } from '../row-database.ts';
import { inSmallSteps, removeInOrder } from '../small-steps.ts';
import { allNetworks } from './anonymous-share.ts';

/** What may change of a container request: times in ms since the epoch. */
export interface RequestTimes {
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly revokedAt: number | null;
  /** When the name ends unless its run is confirmed or it is extended before; null for a name that ends with no run. */
  readonly leaseUntil: number | null;
}

/** A container request as it is stored. */
export interface RequestRow extends RequestTimes {
  /** All else, as JSON text. It never changes. */
  readonly body: string;
}

export interface NewRequestRow extends Omit<RequestRow, 'revokedAt' | 'leaseUntil'> {
  /** The same for all requests that need the same content; empty for one that needs none. */
  readonly needs: Buffer;
  /** The network of a caller without a login. */
  readonly network?: string | undefined;
  /** The build that it waits for. The build is kept for as long as the request. */
  readonly buildId?: string | undefined;
  /** The run that it ends with, which its platform has just confirmed. */
  readonly run?: NewRunRow | undefined;
}

export interface NewRunRow {
  readonly key: Buffer;
  /** `host[:port]` */
  readonly platform: string;
  readonly leaseUntil: number;
  readonly dueAt: number;
}

/** Container requests by the hash of their token; the token itself is not in the database. */
export interface RequestStore {
  /** Resolves when the request would survive a power failure. */
  insert(tokenHash: Buffer, row: NewRequestRow): Promise<void>;
  find(tokenHash: Buffer): Promise<RequestRow | undefined>;
  findTimes(tokenHash: Buffer): Promise<RequestTimes | undefined>;
  /** True when the request existed and was not revoked before; resolves when the revocation is durable. */
  revoke(tokenHash: Buffer, at: number): Promise<boolean>;
  /**
   * Moves the end of a request, never to an earlier time. One that ends with a run lives until then, or as long as the run. False
   * for a revoked request. The build is kept for as long.
   */
  extend(tokenHash: Buffer, expiresAt: number, buildId: string | undefined): Promise<boolean>;
  /** Returns up to so many requests after a place in the order of their ends; those that were revoked or whose run ended have no body. */
  endingAfter(place: RequestPlace, limit: number): Promise<EndingRequest[]>;
  /**
   * Returns up to so many different needs after one, in the order of their bytes, with the body of one of their live requests. Those
   * without a live request have no body.
   */
  needsAfter(needs: Buffer, now: number, limit: number): Promise<NeedsRow[]>;
  /** Removes the requests that ended before the moment; returns how many. */
  purge(endedBefore: number, signal?: AbortSignal): Promise<number>;
  /**
   * Finds requests that a wrong clock has dated after the moment `at`, moves them to `at`, and keeps their lifetime.
   * Returns how many.
   * @param endsAfter no request that is made at `at` ends later than this
   */
  redate(at: number, endsAfter: number, signal?: AbortSignal): Promise<number>;
}

/** A place in the order of the ends of requests. */
export interface RequestPlace {
  /** ms since the epoch */
  readonly expiresAt: number;
  readonly id: number;
}

export interface EndingRequest extends RequestPlace {
  readonly tokenHash: Buffer;
  readonly createdAt: number;
  readonly leaseUntil: number | null;
  readonly body: string | null;
}

export interface NeedsRow {
  readonly needs: Buffer;
  readonly body: string | null;
}

interface InsertedRow extends NewRequestRow {
  readonly tokenHash: Buffer;
}

/** Requests that are written by consecutive statements, as one change. */
interface Group {
  readonly rows: InsertedRow[];
  readonly openedAt: number;
  bytes: number;
  written: Promise<void>;
}

// Short, so that the last request of a group has about as much patience left as the first.
const longestGroupMs = 50;
// A group of this size takes some milliseconds to write.
const mostInGroup = 500;
const largestGroupBytes = 256 * 1024;
// Of requests that need the same, so many of the last to end may be of ended runs. Where there are more, the next one counts as
// live: this keeps some content for longer, and no statement reads more rows.
const mostEnded = 64;

const first: RequestPlace = { expiresAt: Number.MIN_SAFE_INTEGER, id: 0 };

export function createRequestStore(database: RowDatabase): RequestStore {
  const addUse = useOfRequests(database);
  const insert = database.sql(
    'INSERT INTO requests (token_hash, created_at, expires_at, body, network, run, needs) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const addRun = database.sql(
    `INSERT INTO runs (run, platform, lease_until, due_at, ends_at) VALUES (@run, @platform, @leaseUntil, @dueAt, @endsAt)
     ON CONFLICT (run) DO UPDATE SET lease_until = excluded.lease_until,
       due_at = COALESCE(runs.due_at, excluded.due_at),
       ends_at = CASE WHEN runs.ends_at > excluded.ends_at THEN runs.ends_at ELSE excluded.ends_at END`,
  );
  const keepBuild = database.sql(
    'UPDATE builds SET kept_until = @until WHERE id = @id AND COALESCE(kept_until, 0) < @until',
  );
  const leaseUntil =
    'CASE WHEN kept_until > lease_until THEN kept_until ELSE lease_until END AS leaseUntil';
  const times = `created_at AS createdAt, expires_at AS expiresAt, revoked_at AS revokedAt, ${leaseUntil}`;
  const ofToken = 'FROM requests LEFT JOIN runs ON runs.run = requests.run WHERE token_hash = ?';
  const find = database.sql<RequestRow>(`SELECT ${times}, body ${ofToken}`);
  const findTimes = database.sql<RequestTimes>(`SELECT ${times} ${ofToken}`);
  const revoke = database.sql(
    'UPDATE requests SET revoked_at = ? WHERE token_hash = ? AND revoked_at IS NULL',
  );
  const extend = database.sql(
    `UPDATE requests SET expires_at = CASE WHEN expires_at > @expiresAt THEN expires_at ELSE @expiresAt END,
       kept_until = CASE WHEN kept_until > @expiresAt THEN kept_until ELSE @expiresAt END
     WHERE token_hash = @tokenHash AND revoked_at IS NULL`,
  );
  const endingAfter = database.sql<EndingRequest>(
    `SELECT id, token_hash AS tokenHash, created_at AS createdAt, expires_at AS expiresAt, ${leaseUntil},
       CASE WHEN revoked_at IS NULL AND (requests.run IS NULL OR due_at IS NOT NULL OR kept_until > lease_until) THEN body END AS body
     FROM requests LEFT JOIN runs ON runs.run = requests.run
     WHERE (expires_at, id) > (?, ?) ORDER BY expires_at, id LIMIT ?`,
  );
  const same =
    'FROM requests WHERE needs = found.needs AND revoked_at IS NULL AND expires_at > @now';
  const nextNeeds = (after: string) =>
    `(SELECT needs FROM requests WHERE needs > ${after} AND revoked_at IS NULL ORDER BY needs LIMIT 1)`;
  const needsAfter = database.sql<NeedsRow>(
    `WITH RECURSIVE found(needs) AS (
       SELECT ${nextNeeds('@needs')} UNION ALL SELECT ${nextNeeds('found.needs')} FROM found WHERE found.needs IS NOT NULL)
     SELECT needs, COALESCE(
       (SELECT body FROM (SELECT body, run, kept_until ${same} ORDER BY expires_at DESC LIMIT ${mostEnded}) AS latest
        WHERE run IS NULL OR
          (SELECT due_at IS NOT NULL OR latest.kept_until > lease_until FROM runs WHERE runs.run = latest.run) LIMIT 1),
       (SELECT body ${same} LIMIT 1 OFFSET ${mostEnded})) AS body
     FROM found WHERE needs IS NOT NULL LIMIT @limit`,
  );
  const purge = database.sql<RequestPlace>(
    `DELETE FROM requests WHERE id IN
     (SELECT id FROM requests WHERE (expires_at, id) > (@expiresAt, @id) AND expires_at < @endedBefore
      ORDER BY expires_at, id LIMIT @limit)
     RETURNING expires_at AS expiresAt, id`,
  );
  // Starts at the last end: this finds the rows in question, and no other row again and again.
  const redate = database.sql(
    `UPDATE requests SET expires_at = expires_at - created_at + @at, kept_until = kept_until - created_at + @at,
       created_at = @at WHERE id IN
     (SELECT id FROM requests WHERE expires_at > @endsAfter AND created_at > @at
      ORDER BY expires_at DESC LIMIT @limit)`,
  );

  // Requests that arrive while the previous group is being flushed are written together: a separate change for each
  // costs more than the rows.
  let group: Group | undefined;
  const kept = (until: number, id: string | undefined) =>
    id === undefined ? [] : [keepBuild.run({ until, id })];
  const callsFor = (inserted: InsertedRow) => {
    const { tokenHash, createdAt, expiresAt, body, network, buildId, run, needs } = inserted;
    const key = run?.key ?? null;
    return [
      insert.run(tokenHash, createdAt, expiresAt, body, network ?? null, key, needs),
      ...kept(expiresAt, buildId),
      ...(run ? [addRun.run(runValues(run, expiresAt))] : []),
    ];
  };
  const openGroup = (): Group => {
    const opened: Group = {
      rows: [],
      bytes: 0,
      openedAt: performance.now(),
      written: Promise.resolve(),
    };
    const close = () => {
      if (group === opened) group = undefined;
    };
    opened.written = database.write(function* () {
      close();
      yield* atLast([...opened.rows.flatMap(callsFor), ...addUse(opened.rows)]);
    });
    opened.written.catch(close);
    return opened;
  };
  const isFull = ({ rows, bytes, openedAt }: Group) =>
    rows.length >= mostInGroup ||
    bytes >= largestGroupBytes ||
    performance.now() - openedAt > longestGroupMs;
  const add = (row: InsertedRow): Promise<void> => {
    if (!group || isFull(group)) group = openGroup();
    group.rows.push(row);
    group.bytes += row.body.length;
    return group.written;
  };

  return {
    insert: (tokenHash, row) => add({ tokenHash, ...row }),
    find: tokenHash => database.read(find.get(tokenHash)),
    findTimes: tokenHash => database.read(findTimes.get(tokenHash)),
    revoke: (tokenHash, at) => database.write(() => revoke.hasChanged(at, tokenHash)),
    extend: (tokenHash, expiresAt, buildId) =>
      database.write(function* () {
        if (!(yield* extend.hasChanged({ tokenHash, expiresAt }))) return false;
        for (const call of kept(expiresAt, buildId)) yield* call;
        return true;
      }),
    endingAfter: ({ expiresAt, id }, limit) => database.read(endingAfter.all(expiresAt, id, limit)),
    needsAfter: (needs, now, limit) => database.read(needsAfter.all({ needs, now, limit })),
    purge: (endedBefore, signal) =>
      removeInOrder(
        database,
        { statement: purge, values: { endedBefore }, first, order: byEnd },
        signal,
      ),
    redate: (at, endsAfter, signal) =>
      inSmallSteps(database, limit => redate.changes({ at, endsAfter, limit }), signal),
  };
}

function runValues({ key, platform, leaseUntil, dueAt }: NewRunRow, endsAt: number) {
  return { run: key, platform, leaseUntil, dueAt, endsAt };
}

function byEnd(one: RequestPlace, other: RequestPlace): number {
  return one.expiresAt - other.expiresAt || one.id - other.id;
}

/**
 * Adds requests to the sums of anonymous use, one network at a time: a trigger would change the same two rows for
 * each request. Their removal does have a trigger.
 */
function useOfRequests(database: RowDatabase): (rows: readonly InsertedRow[]) => Call<void>[] {
  const add = database.sql(
    `INSERT INTO anonymous_use (network, requests, files, bytes) VALUES (?, ?, 0, ?)
     ON CONFLICT (network) DO UPDATE SET requests = anonymous_use.requests + excluded.requests,
       bytes = anonymous_use.bytes + excluded.bytes`,
  );
  return rows => {
    const sums = new Map<string, { requests: number; bytes: number }>();
    for (const { body, network } of rows) {
      if (network === undefined) continue;
      for (const key of [network, allNetworks]) {
        const sum = sums.get(key) ?? { requests: 0, bytes: 0 };
        sum.requests += 1;
        sum.bytes += Buffer.byteLength(body);
        sums.set(key, sum);
      }
    }
    return Array.from(sums, ([network, { requests, bytes }]) => add.run(network, requests, bytes));
  };
}
