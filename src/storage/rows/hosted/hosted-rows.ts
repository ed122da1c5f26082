import type { RowDatabase } from '../driver/row-database.ts';
import { createHostedPushes } from './hosted-pushes.ts';
import { createHostedQueries } from './hosted-queries.ts';
import { createHostedRemovals } from './hosted-removals.ts';
import type { HostedPlace, HostedRow, HostedStore } from './hosted-store.ts';
import { isPartOfManifest } from './part-of-manifest.ts';

export function createHostedStore(database: RowDatabase): HostedStore {
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
    repositories: (after, limit) => database.read(queries.repositories(after, limit)),
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
