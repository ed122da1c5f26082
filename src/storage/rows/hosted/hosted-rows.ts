import type { Digest } from '../../../oci/digest.ts';
import type { KeptDraft } from '../../content/index.ts';
import { claimSql, isPartOfManifest } from '../content-rows.ts';
import { messageInserts } from '../messages/message-rows.ts';
import { atLast, isThere, type RowDatabase, type RowsWork, together } from '../row-database.ts';
import {
  createHostedQueries,
  createHostedRemovals,
  createImageRemoval,
  type HostedQueries,
} from './hosted-queries.ts';
import type {
  BlobPush,
  BlobRefusal,
  HostedLimit,
  HostedLimits,
  HostedPlace,
  HostedPushes,
  HostedRow,
  HostedStore,
  ManifestPush,
  ManifestPushed,
} from './hosted-store.ts';

/** @param lists reads the list of repositories, which may be some seconds old */
export function createHostedStore(
  database: RowDatabase,
  lists: Pick<RowDatabase, 'read'> = database,
): HostedStore {
  const queries = createHostedQueries(database);
  const rowsAfter = <Row = HostedRow>(table: string, more = '') =>
    database.sql<Row>(
      `SELECT c.repository AS repositoryId, r.name AS repository, c.digest, c.size${more}
       FROM ${table} c JOIN repositories r ON r.id = c.repository
       WHERE (c.repository, c.digest) > (@repositoryId, @digest)
       ORDER BY c.repository, c.digest LIMIT @limit`,
    );
  const blobsAfter = rowsAfter('hosted_blobs');
  const manifestsAfter = rowsAfter('hosted_manifests');
  const datedAfter = rowsAfter<DatedRow>(
    'hosted_blobs',
    `, c.linked_at AS linkedAt,
       ${isPartOfManifest('c')} AS isPart`,
  );

  return {
    ...createHostedPushes(database, queries),
    ...createHostedRemovals(database, queries),

    hasRepository: async repository =>
      (await database.read(queries.hasRepository(repository))) !== undefined,
    repositories: (after, limit) => lists.read(queries.repositories(after, limit)),
    manifest: (repository, digest) => database.read(queries.manifest(repository, digest)),
    async manifestsOf(repository, after, limit) {
      const rows = await database.read(queries.manifestsOf(repository, after, limit));
      return rows.map(({ digest, isUntagged }) => ({ digest, isUntagged: isUntagged === 1 }));
    },
    referrers: (repository, subject, after, limit) =>
      database.read(queries.referrers(repository, subject, after, limit)),
    tagged: (repository, tag) => database.read(queries.tagged(repository, tag)),
    taggedManifest: (repository, tag) => database.read(queries.taggedManifest(repository, tag)),
    tags: (repository, after, limit) => database.read(queries.tags(repository, after, limit)),
    tagsOf: (repository, digest, limit) => database.read(queries.tagsOf(repository, digest, limit)),
    soleParts: (repository, digest) => database.read(queries.soleParts(repository, digest)),
    blobSize: (repository, digest) => database.read(queries.blobSize(repository, digest)),
    holdersOf: (digest, limit) => database.read(queries.holdersOf(digest, limit)),

    repositoryBytes: async repository =>
      Number((await database.read(queries.repositoryBytes(repository))) ?? 0),
    bytesBelow: async name => Number((await database.read(queries.bytesBelow({ name }))) ?? 0),
    totalBytes: async () => Number(await database.read(queries.totalBytes())),

    isHeld: async digest => (await database.read(queries.isHeld({ digest }))) === 1,
    blobsAfter: (place, limit) => database.read(blobsAfter.all(placeOf(place, limit))),
    manifestsAfter: (place, limit) => database.read(manifestsAfter.all(placeOf(place, limit))),
    loneBlobsAfter: async (place, limit) =>
      (await database.read(datedAfter.all(placeOf(place, limit)))).map(({ isPart, ...row }) => ({
        ...row,
        isLone: isPart === 0,
      })),
    settle: () => database.settle(),
  };
}

/** A place may be a row, with more members than a statement takes. */
function placeOf({ repositoryId, digest }: HostedPlace, limit: number) {
  return { repositoryId, digest, limit };
}

type DatedRow = HostedRow & { readonly linkedAt: number; readonly isPart: number };

function createHostedPushes(database: RowDatabase, queries: HostedQueries): HostedPushes {
  const sql = (text: string) => database.sql(text);
  const addRepository = sql('INSERT INTO repositories (name) VALUES (?) ON CONFLICT DO NOTHING');
  const putManifest = sql(
    `INSERT INTO hosted_manifests
     (repository, digest, media_type, size, subject, artifact_type, annotations) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (repository, digest) DO UPDATE SET media_type = excluded.media_type,
       subject = excluded.subject, artifact_type = excluded.artifact_type, annotations = excluded.annotations`,
  );
  const putPart = sql(
    'INSERT INTO hosted_parts (repository, manifest, part) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const putTag = sql(
    `INSERT INTO hosted_tags (repository, name, digest) VALUES (?, ?, ?)
     ON CONFLICT (repository, name) DO UPDATE SET digest = excluded.digest`,
  );
  const putBlob = sql(
    `INSERT INTO hosted_blobs (repository, digest, size, linked_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (repository, digest) DO UPDATE SET linked_at = excluded.linked_at`,
  );
  const forgetCopy = sql('DELETE FROM cached_blobs WHERE digest = ?');
  const claimContent = sql(claimSql);
  const inserts = messageInserts(database);

  /** Returns the id of the repository. One that exists costs no round trip more. */
  function* idOf(repository: string, known: number | undefined): RowsWork<number> {
    if (known !== undefined) return known;
    const [, id] = yield* together([
      addRepository.run(repository),
      queries.repositoryId(repository),
    ]);
    return Number(id);
  }

  function* limitFor(
    repository: string,
    digest: Digest,
    size: number,
    { maxBlobBytes, maxRepositoryBytes, maxTotalBytes }: HostedLimits,
  ): RowsWork<HostedLimit | undefined> {
    const isOver = (bytes: number, limit: number | undefined) =>
      limit !== undefined && bytes > limit;
    if (isOver(size, maxBlobBytes)) return 'maxBlobBytes';
    if (maxRepositoryBytes === undefined && maxTotalBytes === undefined) return undefined;
    const [bytes, isHeld, total] = yield* together([
      queries.repositoryBytes(repository),
      queries.isHeld({ digest }),
      queries.totalBytes(),
    ]);
    if (isOver(Number(bytes ?? 0) + size, maxRepositoryBytes)) return 'maxRepositoryBytes';
    // Content that another repository has takes no additional space.
    if (isHeld === 1) return undefined;
    return isOver(Number(total) + size, maxTotalBytes) ? 'maxTotalBytes' : undefined;
  }

  /**
   * Counts content as used, and reads what decides about a push of it. A push that is refused has this use as its only
   * effect.
   */
  const ask = (repository: string, digest: Digest, size: number, limits: HostedLimits) =>
    together([
      queries.repositoryId(repository),
      limitFor(repository, digest, size, limits),
      claimContent.hasChanged({ digest, at: Date.now() }),
    ]);

  /** Returns why the parts of a manifest prevent a push; undefined when they do not. */
  function* missingPart({
    repository,
    blobs,
    manifests,
  }: ManifestPush): RowsWork<ManifestPushed | undefined> {
    const [sizes, known, others] = yield* together([
      together(blobs.map(({ digest }) => queries.blobSize(repository, digest))),
      together(manifests.map(part => queries.manifest(repository, part.digest))),
      // BuildKit keeps caches as an index of layers.
      together(manifests.map(part => queries.blobSize(repository, part.digest))),
    ]);
    for (const [at, part] of blobs.entries()) {
      const kept = sizes[at];
      if (kept === undefined && !part.isOptional) return { kind: 'missing-blob', part };
      if (kept !== undefined && kept !== part.size) return { kind: 'blob-size', part, kept };
    }
    for (const [at, part] of manifests.entries()) {
      const kept = known[at]?.size ?? others[at];
      if (kept === undefined) return { kind: 'missing-manifest', part };
      if (kept !== part.size) return { kind: 'manifest-size', part, kept };
    }
    return undefined;
  }

  function* pushManifest(push: ManifestPush): RowsWork<ManifestPushed> {
    const { repository, manifest, limits } = push;
    const { digest, mediaType, size, subject, artifactType, annotations } = manifest;
    const [kept, [known, limit, isHere], missing] = yield* together([
      queries.manifest(repository, digest),
      ask(repository, digest, size, limits),
      missingPart(push),
    ]);
    if (!kept && limit) return { kind: 'limit', limit };
    if (missing) return missing;
    if (!isHere) return { kind: 'gone' };
    const id = yield* idOf(repository, known);
    yield* atLast([
      putManifest.run(id, digest, mediaType, size, subject, artifactType, annotations),
      ...[...push.blobs, ...push.manifests].map(part => putPart.run(id, digest, part.digest)),
      ...push.tags.map(tag => putTag.run(id, tag, digest)),
      ...inserts(push.messages ?? []),
    ]);
    return { kind: 'put' };
  }

  function* pushBlob(push: BlobPush): RowsWork<BlobRefusal | undefined> {
    const { repository, digest, size, at, limits } = push;
    const [kept, [known, limit, isHere]] = yield* together([
      queries.blobSize(repository, digest),
      ask(repository, digest, size, limits),
    ]);
    if (kept === undefined && limit) return limit;
    if (!isHere) return 'gone';
    const id = yield* idOf(repository, known);
    yield* atLast([putBlob.run(id, digest, size, at), forgetCopy.run(digest)]);
    return undefined;
  }

  return {
    putManifest: push => database.write(() => pushManifest(push), { signal: push.signal }),
    putBlob: push => database.write(() => pushBlob(push)),
  };
}

/** An upload that a client can continue after the end of the server. */
export interface UploadRow extends KeptDraft {
  readonly id: string;
  readonly repository: string;
  /** The account that began it. */
  readonly owner: string;
  /** When it received its last chunk (ms since the epoch). */
  readonly usedAt: number;
}

/** Uploads into hosted repositories that have not ended, with the bytes that are kept of them. */
export interface UploadStore {
  /** Enters an upload, or more bytes of it. Resolves when that would survive a power failure. */
  keep(upload: UploadRow): Promise<void>;
  /** Returns up to so many uploads, the last used first. */
  latest(limit: number): Promise<UploadRow[]>;
  remove(id: string): Promise<void>;
}

export function createUploadStore(database: RowDatabase): UploadStore {
  const keep = database.sql(
    `INSERT INTO uploads (id, repository, owner, draft, algorithm, size, used_at)
     VALUES (@id, @repository, @owner, @draft, @algorithm, @size, @usedAt)
     ON CONFLICT (id) DO UPDATE SET draft = excluded.draft, size = excluded.size, used_at = excluded.used_at`,
  );
  const latest = database.sql<UploadRow>(
    `SELECT id, repository, owner, draft, algorithm, size, used_at AS usedAt
     FROM uploads ORDER BY used_at DESC LIMIT ?`,
  );
  const remove = database.sql('DELETE FROM uploads WHERE id = ?');
  return {
    keep: ({ id, repository, owner, draft, algorithm, size, usedAt }) =>
      database.write(() => keep.run({ id, repository, owner, draft, algorithm, size, usedAt })),
    latest: limit => database.read(latest.all(limit)),
    remove: id => database.commit(() => remove.run(id)),
  };
}

/** A manifest of a hosted repository. */
export interface ContextRow {
  readonly repository: string;
  readonly digest: Digest;
}

/** A context, and whether it was not pushed since the moment. */
interface AgedContext extends ContextRow {
  readonly isOld: boolean;
}

/** The build contexts that were uploaded into hosted repositories. */
export interface ContextStore {
  /**
   * Returns up to so many contexts after a context, in the order of their repositories and digests. A push refreshes
   * all blobs of its context, so a context with a blob that is older than the moment (ms since the epoch) is old.
   *
   * @param prefix what the names of the repositories begin with, ending in `/`
   * @param last undefined for the first contexts
   */
  after(
    prefix: string,
    last: ContextRow | undefined,
    before: number,
    limit: number,
  ): Promise<AgedContext[]>;
  /** Removes a context unless it was pushed since the moment; true when it did. */
  removeOld(context: ContextRow, before: number): Promise<boolean>;
}

const isOldSql = isThere(`hosted_parts p
  JOIN hosted_blobs b ON b.repository = p.repository AND b.digest = p.part
  WHERE p.repository = m.repository AND p.manifest = m.digest AND b.linked_at < @before`);

export function createContextStore(database: RowDatabase): ContextStore {
  const { removeManifest } = createImageRemoval(database, createHostedQueries(database));
  // Each context, old or not, costs a look at all of its blobs: the limit bounds that too.
  const contextsIn = database.sql<{ readonly digest: Digest; readonly isOld: number }>(
    `SELECT m.digest, ${isOldSql} AS isOld FROM hosted_manifests m
     WHERE m.repository = (SELECT id FROM repositories WHERE name = @repository) AND m.digest > @digest
     ORDER BY m.digest LIMIT @limit`,
  );
  // A repository stays for days after its last context.
  const nextRepository = database
    .sql(
      `SELECT name FROM repositories r WHERE name > ? AND name < ?
       AND ${isThere('hosted_manifests WHERE repository = r.id')} ORDER BY name LIMIT 1`,
    )
    .pluck<string>();
  const isOld = database
    .sql(
      `SELECT ${isOldSql} FROM hosted_manifests m
       WHERE m.repository = (SELECT id FROM repositories WHERE name = @repository) AND m.digest = @digest`,
    )
    .pluck<number>();

  function* contextsAfter(
    place: Pick<ContextRow, 'repository'> & { readonly digest: string },
    end: string,
    before: number,
    limit: number,
  ): RowsWork<AgedContext[]> {
    const found: AgedContext[] = [];
    for (let { repository, digest } = place; ; digest = '') {
      const rest = limit - found.length;
      const rows = yield* contextsIn.all({ repository, digest, before, limit: rest });
      found.push(...rows.map(row => ({ repository, digest: row.digest, isOld: row.isOld === 1 })));
      if (rows.length === rest) return found;
      const next = yield* nextRepository.get(repository, end);
      if (next === undefined) return found;
      repository = next;
    }
  }

  return {
    after(prefix, last, before, limit) {
      // `0` is what follows `/`.
      const end = `${prefix.slice(0, -1)}0`;
      const place = last ?? { repository: prefix, digest: '' };
      return database.read(contextsAfter(place, end, before, limit));
    },
    removeOld: ({ repository, digest }, before) =>
      database.commit(function* () {
        if ((yield* isOld.get({ repository, digest, before })) !== 1) return false;
        return yield* removeManifest(repository, digest);
      }),
  };
}
