import type { Database } from '../database.ts';
import { createHostedPushes } from './hosted-pushes.ts';
import { createHostedQueries } from './hosted-queries.ts';
import { createHostedRemovals } from './hosted-removals.ts';
import type { HostedRow, HostedStore } from './hosted-store.ts';

export function createHostedStore(database: Database): HostedStore {
  const sql = (text: string) => database.prepare(text);
  const queries = createHostedQueries(database);
  const rowsAfter = (table: string, more = '') =>
    sql(
      `SELECT c.repository AS repositoryId, r.name AS repository, c.digest, c.size${more}
       FROM ${table} c JOIN repositories r ON r.id = c.repository
       WHERE (c.repository, c.digest) > (@repositoryId, @digest)
       ORDER BY c.repository, c.digest LIMIT @limit`,
    );
  const blobsAfter = rowsAfter('hosted_blobs');
  const manifestsAfter = rowsAfter('hosted_manifests');
  const datedAfter = rowsAfter(
    'hosted_blobs',
    `, c.linked_at AS linkedAt, EXISTS
       (SELECT 1 FROM hosted_parts p WHERE p.repository = c.repository AND p.part = c.digest) AS isPart`,
  );

  return {
    ...createHostedPushes(database, queries),
    ...createHostedRemovals(database, queries),

    hasRepository: async repository => queries.hasRepository(repository),
    repositories: async (after, limit) => queries.repositories(after, limit),
    manifest: async (repository, digest) => queries.manifest(repository, digest),
    manifestsOf: async (repository, after, limit) => queries.manifestsOf(repository, after, limit),
    referrers: async (repository, subject, after, limit) =>
      queries.referrers(repository, subject, after, limit),
    tagged: async (repository, tag) => queries.tagged(repository, tag),
    tags: async (repository, after, limit) => queries.tags(repository, after, limit),
    tagsOf: async (repository, digest, limit) => queries.tagsOf(repository, digest, limit),
    soleParts: async (repository, digest) => queries.soleParts(repository, digest),
    blobSize: async (repository, digest) => queries.blobSize(repository, digest),
    holdersOf: async (digest, limit) => queries.holdersOf(digest, limit),

    repositoryBytes: async repository => queries.repositoryBytes(repository),
    bytesBelow: async repository => queries.bytesBelow(repository),
    totalBytes: async () => queries.totalBytes(),

    isHeld: async digest => queries.isHeld(digest),
    blobsAfter: async (place, limit) => blobsAfter.all({ ...place, limit }) as HostedRow[],
    manifestsAfter: async (place, limit) => manifestsAfter.all({ ...place, limit }) as HostedRow[],
    loneBlobsAfter: async (place, limit) =>
      (datedAfter.all({ ...place, limit }) as DatedRow[]).map(({ isPart, ...row }) => ({
        ...row,
        isLone: isPart === 0,
      })),
    settle: () => database.settle(),
  };
}

type DatedRow = HostedRow & { readonly linkedAt: number; readonly isPart: number };
