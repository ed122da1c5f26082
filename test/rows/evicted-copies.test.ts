/** The removal of cached blobs while somebody reads an older state of the database, such as pg_dump. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { createBlobCache } from '../../src/pull/blobs/blob-cache.ts';
import type { Transfers } from '../../src/pull/blobs/transfers.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { openPostgresRows } from '../../src/storage/rows/rows.ts';
import { eventually } from '../world/eventually.ts';
import { startPostgres } from '../world/postgres.ts';

const count = 300;
const size = 1000;

test('a cache that removes copies passes removed rows once', async () => {
  await using postgres = await startPostgres();
  const url = await postgres.createDatabase();
  const rows = await openPostgresRows(url);
  const enter = (at: number) => {
    const copy = { digest: digestOf(`copy ${at}`), size, places: ['registry.example.com'] };
    return rows.cachedBlobs.enter({ ...copy, at, wasHere: false });
  };
  for (let at = 1; at <= count; at += 1) await enter(at);
  const removed: Digest[] = [];
  let onRemoved = () => {};
  const content = {
    size: async () => undefined,
    async remove(digest: Digest, mark: () => Promise<boolean>) {
      await mark();
      removed.push(digest);
      onRemoved();
      return true;
    },
  } as unknown as ContentStore;
  const transfers = {
    join: (_key: string, { onKept }: { onKept(size: number): Promise<void> }) => onKept(size),
  } as unknown as Transfers;
  const cachedBlobs = rows.cachedBlobs;
  const cache = createBlobCache({ content, cachedBlobs, transfers, maxBytes: count * size });
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await client.query('SELECT 1 FROM cached_blobs LIMIT 1');
    for (let at = 0; at < count; at += 1) {
      const { promise, resolve } = Promise.withResolvers<void>();
      onRemoved = resolve;
      const place = { registry: 'registry.example.com', repository: 'app' };
      const open = () => Promise.reject(new Error('not opened'));
      await cache.join(place, digestOf(`new ${at}`), open, new AbortController().signal);
      await promise;
    }
    const inOrder = Array.from({ length: count }, (_, at) => digestOf(`copy ${at + 1}`));
    assert.deepEqual(removed, inOrder, 'the least recently used copies are removed');
    await rows.end();
    await client.query('ROLLBACK');
    const passed = async () => {
      const { rows } = await client.query(
        "SELECT idx_tup_read AS passed FROM pg_stat_user_indexes WHERE indexrelname = 'cached_blobs_by_use'",
      );
      return Number(rows[0].passed);
    };
    await eventually('the connections that ended have given their counts', async () => {
      return (await passed()) >= count;
    });
    assert.ok((await passed()) < 10 * count, `${await passed()} places were passed`);
  } finally {
    await client.end();
  }
});
