import { createHash } from 'node:crypto';
import type { Digest } from '../../../oci/digest.ts';
import type { RowDatabase } from '../row-database.ts';
import { createNotedChanges, inSmallSteps } from '../small-steps.ts';

/** Records which layers of Conda packages were made. Times are ms since the epoch. */
export interface PackageLayerStore {
  /**
   * Returns a layer, and counts it as used at the moment, at most once an hour. The content of the layer may be gone.
   *
   * @param key 32 bytes in hex: what the layer is made of
   */
  find(key: string, at: number): Promise<PackageLayerRow | undefined>;
  /** Returns the paths of a layer, as they were entered. */
  paths(key: string): Promise<Buffer | undefined>;
  /** Enters a layer whose content is here, or replaces its row. */
  enter(layer: NewPackageLayer): Promise<void>;
  /** Returns up to so many layers after an id, in the order of their ids. */
  after(id: number, limit: number): Promise<{ readonly id: number; readonly digest: Digest }[]>;
  /** Removes layers that were used last before the moment, or after `latest`; returns how many. */
  purge(usedBefore: number, latest: number, signal?: AbortSignal): Promise<number>;
}

/** A layer of one package, or of several. */
export interface PackageLayerRow {
  /** Digest of the gzip file. */
  readonly digest: Digest;
  /** Bytes of the gzip file. */
  readonly size: number;
  readonly tarDigest: Digest;
  /** JSON about the package; null for a layer of several packages. */
  readonly facts: string | null;
  /** Six bytes of a hash for each path; null for a layer of several packages. */
  readonly pathHashes: Buffer | null;
}

interface NewPackageLayer extends PackageLayerRow {
  readonly key: string;
  /** The paths of a package in any form. They are read seldom. */
  readonly paths: Buffer | null;
  readonly at: number;
}

interface StoredRow extends PackageLayerRow {
  readonly usedAt: number;
}

const touchMs = 3_600_000;

export function createPackageLayerStore(database: RowDatabase): PackageLayerStore {
  const find = database.sql<StoredRow>(
    `SELECT digest, size, tar_digest AS tarDigest, facts, path_hashes AS pathHashes, used_at AS usedAt
     FROM package_layers WHERE key = ?`,
  );
  const paths = database
    .sql('SELECT paths FROM package_layers WHERE key = ?')
    .pluck<Buffer | null>();
  const enter = database.sql(
    `INSERT INTO package_layers (key, digest, size, tar_digest, used_at, facts, path_hashes, paths)
     VALUES (@key, @digest, @size, @tarDigest, @at, @facts, @pathHashes, @paths)
     ON CONFLICT (key) DO UPDATE SET digest = excluded.digest, size = excluded.size,
       tar_digest = excluded.tar_digest, used_at = excluded.used_at, facts = excluded.facts,
       path_hashes = excluded.path_hashes, paths = excluded.paths`,
  );
  const touch = database.sql('UPDATE package_layers SET used_at = ? WHERE key = ?');
  const after = database.sql<{ id: number; digest: Digest }>(
    'SELECT id, digest FROM package_layers WHERE id > ? ORDER BY id LIMIT ?',
  );
  const { note, ended } = createNotedChanges(database);
  const bytesOf = (key: string) => Buffer.from(key, 'hex');
  return {
    async find(key, at) {
      const found = await database.read(find.get(bytesOf(key)));
      if (!found) return undefined;
      const { usedAt, ...row } = found;
      if (Math.abs(at - usedAt) > touchMs) {
        note(() => touch.run(at, bytesOf(key)));
      }
      return row;
    },
    paths: async key => (await database.read(paths.get(bytesOf(key)))) ?? undefined,
    enter: ({ key, ...layer }) => database.commit(() => enter.run({ key: bytesOf(key), ...layer })),
    after: (id, limit) => database.read(after.all(id, limit)),
    purge: createPurge(database, ended, 'package_layers', 'id'),
  };
}

/** The digests of layers fetched from URLs, so that each is fetched once. Times are ms since the epoch. */
export interface FetchedLayerStore {
  /** Returns an entry, and counts it as used at the moment, at most once an hour. */
  find(location: string, at: number): Promise<string | undefined>;
  /** Adds an entry. If it cannot be written, the layer is fetched again. */
  put(location: string, body: string, at: number): void;
  /** Removes entries that were used last before the moment, or after `latest`; returns how many. */
  purge(usedBefore: number, latest: number, signal?: AbortSignal): Promise<number>;
}

/** Locations are kept as hashes: a URL may hold a signature that gives access. */
export function createFetchedLayerStore(database: RowDatabase): FetchedLayerStore {
  const find = database.sql<{ body: string; usedAt: number }>(
    'SELECT body, used_at AS usedAt FROM fetched_layers WHERE location_hash = ?',
  );
  const put = database.sql(
    `INSERT INTO fetched_layers (location_hash, body, used_at) VALUES (?, ?, ?)
     ON CONFLICT (location_hash) DO UPDATE SET body = excluded.body, used_at = excluded.used_at`,
  );
  const touch = database.sql('UPDATE fetched_layers SET used_at = ? WHERE location_hash = ?');
  const { note, ended } = createNotedChanges(database);
  const hash = (location: string) => createHash('sha256').update(location).digest();
  return {
    async find(location, at) {
      const found = await database.read(find.get(hash(location)));
      if (found && Math.abs(at - found.usedAt) > touchMs) {
        note(() => touch.run(at, hash(location)));
      }
      return found?.body;
    },
    put: (location, body, at) => note(() => put.run(hash(location), body, at)),
    purge: createPurge(database, ended, 'fetched_layers', 'location_hash'),
  };
}

/** Records which registries have sent a layer, and what it unpacks to. Times are ms since the epoch. */
export interface VerifiedLayerStore {
  /** Returns the digest of the unpacked layer, and counts the row as used at the moment, at most once a day. */
  find(digest: Digest, registry: string, at: number): Promise<Digest | undefined>;
  /** Adds a row. */
  put(digest: Digest, registry: string, diffId: Digest, at: number): Promise<void>;
  /** Removes rows that were used last before the moment, or after `latest`; returns how many. */
  purge(usedBefore: number, latest: number, signal?: AbortSignal): Promise<number>;
}

const verifiedTouchMs = 24 * 3_600_000;

export function createVerifiedLayerStore(database: RowDatabase): VerifiedLayerStore {
  const find = database.sql<{ diffId: Digest; usedAt: number }>(
    `SELECT diff_id AS diffId, used_at AS usedAt FROM verified_layers
     WHERE digest = ? AND registry = ?`,
  );
  const put = database.sql(
    `INSERT INTO verified_layers (digest, registry, diff_id, used_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (digest, registry) DO UPDATE SET diff_id = excluded.diff_id, used_at = excluded.used_at`,
  );
  const touch = database.sql(
    'UPDATE verified_layers SET used_at = ? WHERE digest = ? AND registry = ?',
  );
  const { note, ended } = createNotedChanges(database);
  return {
    async find(digest, registry, at) {
      const found = await database.read(find.get(digest, registry));
      if (found && Math.abs(at - found.usedAt) > verifiedTouchMs) {
        note(() => touch.run(at, digest, registry));
      }
      return found?.diffId;
    },
    put: (digest, registry, diffId, at) =>
      database.commit(() => put.run(digest, registry, diffId, at)),
    purge: createPurge(database, ended, 'verified_layers', 'digest, registry'),
  };
}

/**
 * Returns the removal of rows of a table that were used last before a moment, or after `latest`; it returns how many.
 *
 * @param ended resolves when all uses are noted
 */
function createPurge(
  database: RowDatabase,
  ended: () => Promise<void>,
  table: string,
  key: string,
) {
  const removal = (order: '<' | '>') =>
    database.sql(
      `DELETE FROM ${table} WHERE (${key}) IN
       (SELECT ${key} FROM ${table} WHERE used_at ${order} ? LIMIT ?)`,
    );
  const [before, after] = [removal('<'), removal('>')];
  return async (usedBefore: number, latest: number, signal?: AbortSignal): Promise<number> => {
    await ended();
    const removed = await inSmallSteps(database, rows => before.changes(usedBefore, rows), signal);
    return removed + (await inSmallSteps(database, rows => after.changes(latest, rows), signal));
  };
}
