import { randomInt } from 'node:crypto';
import type { Digest } from '../../../oci/digest.ts';
import { createHostedQueries, createImageRemoval } from '../hosted/hosted-queries.ts';
import type { HostedImage } from '../hosted/hosted-store.ts';
import { messageInserts, type NewMessage } from '../messages/message-rows.ts';
import { atLast, type RowDatabase } from '../row-database.ts';

/** A build as it is stored. Times are ms since the epoch. */
export interface BuildRow {
  /** `<key>_<number>`: anyone who has it may see the build and its log. */
  readonly id: string;
  readonly key: string;
  /** Random, because a key is in the name of its image, and anyone who guesses the recipe can compute it. */
  readonly number: number;
  /** The image that it makes, `registry/repository:tag`. */
  readonly target: string;
  /** The plan of the build, as JSON text, without credentials. */
  readonly plan: string;
  /** The caller that requested it; empty for a build of an earlier version. */
  readonly owner: string;
  readonly isTrusted: boolean;
  /** Sealed authority to act for that caller; null for an unknown caller. */
  readonly grant: string | null;
  readonly createdAt: number;
  /** When the build left the queue. */
  readonly startedAt: number | null;
  /** Number of times that a server has started it, except when a stopping server left it to the next one. */
  readonly starts: number;
  readonly finishedAt: number | null;
  readonly succeeded: boolean | null;
  /** Digest of the pushed image. */
  readonly digest: Digest | null;
  readonly mediaType: string | null;
  /** Why it failed, shown to its user. */
  readonly reason: string | null;
  readonly lockFile: string | null;
  /** The one file of an artifact: a SIF file. */
  readonly file: Digest | null;
}

export type BuildOutcome =
  | {
      readonly succeeded: true;
      readonly digest: Digest;
      readonly mediaType: string;
      readonly lockFile: string | undefined;
      readonly file?: Digest | undefined;
      /** The packages of an image that was made without a builder, in the form in which they are kept. */
      readonly solution?: Buffer | undefined;
    }
  | { readonly succeeded: false; readonly reason: string };

/** A build at the moment when a caller looked at it. */
type SeenBuild = Pick<BuildRow, 'id' | 'finishedAt'>;

interface EnteredBuild {
  readonly row: BuildRow;
  /** False for a build that existed before. */
  readonly isNew: boolean;
}

/** Data of a build before it begins. */
export type NewBuild = Pick<BuildRow, 'key' | 'target' | 'plan' | 'owner' | 'isTrusted' | 'grant'>;

export interface BuildStore {
  /**
   * Enters a new build of a target under a random number. Enters nothing when a build of the target is unfinished, or
   * when the newest one differs from the one that the caller has seen: of two callers, the second gets the build of
   * the first.
   *
   * @param seen the newest build of the target when the caller looked; undefined for none
   */
  insert(build: NewBuild, seen: SeenBuild | undefined, at: number): Promise<EnteredBuild>;
  find(id: string): Promise<BuildRow | undefined>;
  /** Returns the packages that were kept with a build; undefined for a build without them. */
  solution(id: string): Promise<Buffer | undefined>;
  /** Returns the newest build of a target, or the newest that made this digest. */
  latest(target: string, digest?: Digest): Promise<BuildRow | undefined>;
  /** Returns up to so many builds of a target, the newest first. */
  newest(target: string, limit: number): Promise<BuildRow[]>;
  /**
   * Notes that a build starts, and counts the start. A second call with the same row changes nothing: the change may
   * run again after the response to its commit was lost.
   *
   * @param build as it was before the start
   */
  start(build: Pick<BuildRow, 'id' | 'starts'>, at: number): Promise<void>;
  /**
   * Takes back the count of a start, for a build that a stopping server leaves to the next one.
   *
   * @param build as it was before the start
   */
  leave(build: Pick<BuildRow, 'id' | 'starts'>): Promise<void>;
  /**
   * Ends a build that has not ended: the first end counts. Resolves when the result would survive a power failure, however
   * long another process delays that.
   * @param keptUntil when it may be removed; a request for it extends that to the request's expiry
   * @param messages written in the same transaction, if it ends the build
   */
  finish(
    id: string,
    outcome: BuildOutcome,
    at: number,
    keptUntil: number,
    messages?: readonly NewMessage[],
  ): Promise<void>;
  /** Returns false for a build that has ended. Throws a `Fault` (503) when this server may change no builds any more. */
  isUnfinished(id: string): Promise<boolean>;
  /**
   * Returns up to so many builds that are queued or running, or were when the process ended, in the order of their
   * rows.
   */
  unfinished(afterRow: number, limit: number): Promise<UnfinishedBuild[]>;
  /** Returns up to so many finished builds that need not be kept at the moment. */
  expired(at: number, limit: number): Promise<ExpiredBuild[]>;
  /**
   * Removes a build that need not be kept at the moment; false when a request for it has come.
   *
   * @param image the image to remove with it, unless something else refers to that image
   */
  remove(id: string, at: number, image?: HostedImage): Promise<boolean>;
}

export type ExpiredBuild = Pick<BuildRow, 'id' | 'target' | 'digest' | 'isTrusted'>;

export interface UnfinishedBuild extends BuildRow {
  /** Number of its row. */
  readonly row: number;
}

const buildColumns = `id, build_key AS key, number, target, plan, owner, trusted AS isTrusted, sealed_grant AS grant, created_at AS createdAt, started_at AS startedAt, starts,
  finished_at AS finishedAt, succeeded, digest, media_type AS mediaType, reason, lock_file AS lockFile, file`;

// Upper limit of `randomInt`.
const randomLimit = 2 ** 48 - 1;

export function createBuildStore(database: RowDatabase): BuildStore {
  const { removeImage } = createImageRemoval(database, createHostedQueries(database));
  const inserts = messageInserts(database);
  const insert = database.sql(
    `INSERT INTO builds (id, build_key, number, target, plan, owner, trusted, sealed_grant, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (target) WHERE finished_at IS NULL DO NOTHING`,
  );
  const find = database.sql<StoredRow>(`SELECT ${buildColumns} FROM builds WHERE id = ?`);
  const solution = database.sql('SELECT solution FROM builds WHERE id = ?').pluck<Buffer | null>();
  const latestOf = database.sql<StoredRow>(
    `SELECT ${buildColumns} FROM builds WHERE target = ? AND digest = ? ORDER BY rowid DESC LIMIT 1`,
  );
  const newestOf = database.sql<StoredRow>(
    `SELECT ${buildColumns} FROM builds WHERE target = ? ORDER BY rowid DESC LIMIT ?`,
  );
  const start = database.sql(
    'UPDATE builds SET started_at = @at, starts = @starts + 1 WHERE id = @id AND starts = @starts',
  );
  const leave = database.sql(
    'UPDATE builds SET starts = @starts WHERE id = @id AND starts = @starts + 1',
  );
  const finish = database.sql(
    `UPDATE builds SET finished_at = @at, succeeded = @succeeded, digest = @digest,
       media_type = @mediaType, reason = @reason, lock_file = @lockFile, file = @file, solution = @solution,
       kept_until = CASE WHEN kept_until > @keptUntil THEN kept_until ELSE @keptUntil END
     WHERE id = @id AND finished_at IS NULL`,
  );
  // Only a change makes sure that no other server has taken the database.
  const isUnfinished = database.sql(
    'UPDATE builds SET starts = starts WHERE id = ? AND finished_at IS NULL',
  );
  const unfinished = database.sql<StoredRow & { readonly row: number }>(
    `SELECT ${buildColumns}, rowid AS row FROM builds WHERE finished_at IS NULL AND rowid > ?
     ORDER BY rowid LIMIT ?`,
  );

  const expired = database.sql<StoredRow>(
    `SELECT ${buildColumns} FROM builds WHERE finished_at IS NOT NULL AND kept_until < ?
     ORDER BY kept_until LIMIT ?`,
  );
  const remove = database.sql(
    'DELETE FROM builds WHERE id = ? AND finished_at IS NOT NULL AND kept_until < ?',
  );

  function* latest(target: string) {
    const row = yield* newestOf.get(target, 1);
    return row && rowOf(row);
  }
  function* add(build: NewBuild, seen: SeenBuild | undefined, at: number) {
    const { key, target, plan, owner, isTrusted, grant } = build;
    const last = yield* latest(target);
    if (last && last.finishedAt !== null && isNews(last, seen)) return { row: last, isNew: false };
    const number = randomInt(1, randomLimit);
    const values = [`${key}_${number}`, key, number, target, plan, owner, isTrusted ? 1 : 0, grant];
    const isNew = yield* insert.hasChanged(...values, at);
    return { row: (yield* latest(target)) as BuildRow, isNew };
  }

  return {
    insert: (build, seen, at) => database.write(() => add(build, seen, at)),
    async find(id) {
      const row = await database.read(find.get(id));
      return row && rowOf(row);
    },
    solution: async id => (await database.read(solution.get(id))) ?? undefined,
    async latest(target, digest) {
      const call = digest === undefined ? newestOf.get(target, 1) : latestOf.get(target, digest);
      const row = await database.read(call);
      return row && rowOf(row);
    },
    newest: async (target, limit) => (await database.read(newestOf.all(target, limit))).map(rowOf),
    start: ({ id, starts }, at) =>
      database.commit(() => start.run({ id, starts, at }), {
        patienceMs: Number.POSITIVE_INFINITY,
      }),
    leave: ({ id, starts }) => database.write(() => leave.run({ id, starts })),
    async finish(id, outcome, at, keptUntil, messages = []) {
      const { succeeded } = outcome;
      const made = succeeded ? outcome : undefined;
      const reason = succeeded ? null : outcome.reason;
      const { digest = null, mediaType = null, lockFile = null, file = null } = made ?? {};
      const { solution: packages = null } = made ?? {};
      const ended = { id, at, succeeded: succeeded ? 1 : 0, reason, keptUntil };
      const result = { digest, mediaType, lockFile, file, solution: packages };
      await database.write(
        function* () {
          if (messages.length === 0) yield* atLast([finish.run({ ...ended, ...result })]);
          else if (yield* finish.hasChanged({ ...ended, ...result }))
            yield* atLast(inserts(messages));
        },
        { patienceMs: Number.POSITIVE_INFINITY },
      );
    },
    isUnfinished: id => database.commit(() => isUnfinished.hasChanged(id)),
    unfinished: async (afterRow, limit) =>
      (await database.read(unfinished.all(afterRow, limit))).map(
        row => rowOf(row) as UnfinishedBuild,
      ),
    expired: async (at, limit) => (await database.read(expired.all(at, limit))).map(rowOf),
    remove: (id, at, image) =>
      database.commit(function* () {
        const isRemoved = yield* remove.hasChanged(id, at);
        if (isRemoved && image) yield* removeImage(image);
        return isRemoved;
      }),
  };
}

/** Returns true when the newest build of a target is not the one that the caller has seen, or has finished since. */
export function isNews(last: SeenBuild, seen: SeenBuild | undefined): boolean {
  return last.id !== seen?.id || last.finishedAt !== seen.finishedAt;
}

/** A row as SQLite stores it: without booleans, and with fewer columns in rows of earlier versions. */
type StoredRow = Omit<BuildRow, 'owner' | 'isTrusted' | 'succeeded'> & {
  owner: string | null;
  isTrusted: number | null;
  succeeded: number | null;
};

function rowOf({ owner, isTrusted, succeeded, ...rest }: StoredRow): BuildRow {
  return {
    ...rest,
    owner: owner ?? '',
    isTrusted: isTrusted === 1,
    succeeded: succeeded === null ? null : succeeded === 1,
  };
}

/** A build as a list shows it: without its plan. */
export interface ListedBuild
  extends Pick<
    BuildRow,
    'id' | 'target' | 'owner' | 'grant' | 'createdAt' | 'startedAt' | 'finishedAt' | 'succeeded'
  > {
  /** Place in the list. */
  readonly row: number;
  /** `dockerfile`, `definition`, `conda`, or `image`; `recipe` for builds of early versions. */
  readonly kind: string;
  readonly platforms: readonly string[];
  readonly isSif: boolean;
}

interface BuildListQuery {
  /** The caller that requested the builds; undefined for all. */
  readonly owner: string | undefined;
  /** `null`: unfinished builds; undefined: all builds. */
  readonly succeeded: boolean | null | undefined;
  /** The place before which the list begins. */
  readonly before: number;
  readonly limit: number;
}

export interface BuildListStore {
  /** Returns builds, the newest first. */
  list(query: BuildListQuery): Promise<ListedBuild[]>;
}

type StoredBuild = Omit<ListedBuild, 'owner' | 'succeeded' | 'platforms' | 'isSif'> & {
  readonly owner: string | null;
  readonly succeeded: number | null;
  readonly platforms: string | null;
  readonly isSif: number;
};

export function createBuildListStore(database: RowDatabase): BuildListStore {
  const select = `SELECT rowid AS row, id, target, owner, sealed_grant AS grant, created_at AS createdAt, started_at AS startedAt,
      finished_at AS finishedAt, succeeded, json_extract(plan, '$.origin.platforms') AS platforms,
      COALESCE(json_extract(plan, '$.origin.recipe'), json_extract(plan, '$.origin.kind')) AS kind,
      json_type(plan, '$.sif') IS NOT NULL AS isSif
    FROM builds WHERE rowid < @before`;
  const order = 'ORDER BY rowid DESC LIMIT @limit';
  // One statement for each form of the query, so that each has its index.
  const all = database.sql<StoredBuild>(`${select} ${order}`);
  const ofResult = database.sql<StoredBuild>(`${select} AND succeeded = @result ${order}`);
  const unfinished = database.sql<StoredBuild>(`${select} AND succeeded IS NULL ${order}`);
  const ofOwner = database.sql<StoredBuild>(`${select} AND owner = @owner ${order}`);
  const ofBoth = database.sql<StoredBuild>(
    `${select} AND owner = @owner AND succeeded = @result ${order}`,
  );
  const unfinishedOfOwner = database.sql<StoredBuild>(
    `${select} AND owner = @owner AND succeeded IS NULL ${order}`,
  );
  const statementOf = ({ owner, succeeded }: BuildListQuery) => {
    if (succeeded === undefined) return owner === undefined ? all : ofOwner;
    if (succeeded === null) return owner === undefined ? unfinished : unfinishedOfOwner;
    return owner === undefined ? ofResult : ofBoth;
  };
  return {
    async list(query) {
      const { owner, succeeded, before, limit } = query;
      const given = {
        before,
        limit,
        ...(owner === undefined ? {} : { owner }),
        ...(typeof succeeded === 'boolean' ? { result: Number(succeeded) } : {}),
      };
      return (await database.read(statementOf(query).all(given))).map(row => ({
        ...row,
        owner: row.owner ?? '',
        succeeded: row.succeeded === null ? null : row.succeeded === 1,
        platforms: row.platforms === null ? [] : (JSON.parse(row.platforms) as string[]),
        isSif: row.isSif === 1,
      }));
    },
  };
}
