/** Many rows never block the event loop, in queries and in deletions. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { createDigestFilter } from '../../src/server/upkeep/sweep/digest-filter.ts';
import { markRequests } from '../../src/server/upkeep/sweep/marks.ts';
import { unlinkOrphans } from '../../src/server/upkeep/sweep/orphans.ts';
import { sweep } from '../../src/server/upkeep/sweep/sweep.ts';
import { enterUnknown } from '../../src/server/upkeep/sweep/unknown-content.ts';
import { createContentPresence } from '../../src/storage/content/content-presence.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createPullStore } from '../../src/storage/rows/figures/pull-rows.ts';
import { freeSpace, returnFreePages } from '../../src/storage/rows/file/free-pages.ts';
import { createHostedStore } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { firstPlace, type HostedPlace } from '../../src/storage/rows/hosted/hosted-store.ts';
import { createAnonymousUseStore } from '../../src/storage/rows/images/anonymous-use.ts';
import { type BuildStore, createBuildStore } from '../../src/storage/rows/images/build-rows.ts';
import { createCachedBlobStore } from '../../src/storage/rows/images/cached-blob-rows.ts';
import {
  type ContentRowStore,
  createContentRowStore,
} from '../../src/storage/rows/images/content-rows.ts';
import { createPackageLayerStore } from '../../src/storage/rows/images/package-layer-rows.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';
import { eachRow } from '../../src/storage/rows/small-steps.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { fillDatabase } from '../world/many-rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';

// SCALE=20 is ten million rows: by hand, it takes half an hour.
const scale = Number(process.env.SCALE ?? 1);
const mostMs = 50;
const dayMs = 24 * 3_600_000;
const unlimited = { async admitRequest() {} };
const empty = { read: async () => undefined } as unknown as Parameters<typeof markRequests>[0];

/** A content store with the given number of contents without rows, beside all others. */
function bytesWithout(rows: ContentRowStore, count: number): ContentStore {
  const presence = createContentPresence(rows, {
    size: async () => 1000,
    remove: async () => true,
  });
  return {
    ...presence,
    read: async () => undefined,
    removeDamaged: async () => 0,
    endTransfers: async () => 0,
    async *list() {
      for (let at = 0; at < count; at += 1) {
        yield { digest: `sha256:d${at.toString(16).padStart(63, '0')}`, size: 1000 };
      }
    },
  } as unknown as ContentStore;
}

/** As `Builds` does it, without logs. */
async function purgeBuilds(store: BuildStore): Promise<void> {
  const read = () => store.expired(Date.now(), 100);
  for (let found = await read(); found.length > 0; found = await read()) {
    for (const { id } of found) {
      await store.remove(id, Date.now());
      await new Promise(setImmediate);
    }
  }
}

suite(`${scale / 2} million rows`, () => {
  test('queries and deletions do not block the event loop', async t => {
    await using directory = await makeTempDir('growth');
    const database = openDatabase(directory.join('sluice.db'), {});
    const now = Date.now();
    fillDatabase(database, {
      ...{ endedRequests: 100_000 * scale, liveRequests: 30_000 * scale },
      ...{ hostedBlobs: 100_000 * scale, orphans: 30_000 * scale },
      ...{ cachedBlobs: 100_000 * scale, endedBuilds: 20_000 * scale },
      ...{ contents: 20_000 * scale, packageLayers: 5000 * scale },
    });
    // The log of a server never gets as long as in one transaction of all these rows.
    database.pragma('wal_checkpoint(TRUNCATE)');
    const hosted = createHostedStore(database);
    const requests = createRequestStore(database);
    const builds = createBuildStore(database);
    const cachedBlobs = createCachedBlobStore(database);
    const contentRows = createContentRowStore(database);
    const packageLayers = createPackageLayerStore(database);
    const bare = bytesWithout(contentRows, 5000 * scale);
    const count = (table: string) =>
      Number(database.prepare(`SELECT COUNT(*) FROM ${table}`).pluck().get());

    const works: Record<string, () => Promise<unknown>> = {
      async 'sums of quota'() {
        assert.equal(await hosted.totalBytes(), 135_000_000 * scale);
        assert.equal(await hosted.repositoryBytes('many/kept'), 105_000_000 * scale);
        assert.equal(await cachedBlobs.total(), 100_000_000 * scale);
      },
      'marks of live requests': () => markRequests(empty, requests, now, createDigestFilter()),
      async 'all hosted blobs'() {
        let place: HostedPlace = firstPlace;
        let seen = 0;
        for await (const row of eachRow(rows => hosted.blobsAfter(place, rows))) {
          place = row;
          seen += 1;
        }
        assert.equal(seen, 130_000 * scale);
      },
      async 'unlinking of orphans'() {
        const times = { linkedBefore: now, latest: now + dayMs, now };
        assert.equal(await unlinkOrphans(hosted, times, {}), 30_000 * scale);
      },
      async 'rows for content that has none'() {
        assert.equal(await enterUnknown(bare, contentRows, { isDryRun: false }), 0);
        assert.equal(count('contents'), 155_000 * scale);
      },
      async 'sweep of content'() {
        const anonymousUse = createAnonymousUseStore(database);
        const deps = {
          ...{ content: bare, hosted, contentRows, requests, builds, anonymousUse },
          ...{ packageLayers, pulls: createPullStore(database) },
        };
        const { removedCount, keptCount } = await sweep(deps, { graceMs: dayMs });
        assert.deepEqual([removedCount, keptCount], [20_000 * scale, 135_000 * scale]);
      },
      'purge of requests': () => createTokenRegistry(requests, dayMs, unlimited).purge(),
      'purge of package layers': () => packageLayers.purge(now - dayMs, now),
      'purge of builds': () => purgeBuilds(builds),
      'removal of a repository': () => hosted.removeManifests('many/kept'),
      'return of free pages': () => returnFreePages(database),
    };
    for (const [name, work] of Object.entries(works)) {
      const began = performance.now();
      const { cpuMs, wallMs } = await longestBlock(work);
      const tookMs = Math.round(performance.now() - began);
      t.diagnostic(
        `${name}: ${tookMs} ms, at most ${cpuMs.toFixed(1)} ms of CPU at a time (${wallMs.toFixed(1)} ms in all)`,
      );
      const bound = boundMs(mostMs);
      assert.ok(cpuMs < bound, `${name} held the event loop for ${cpuMs} ms, ${bound} are allowed`);
    }
    assert.deepEqual(
      [count('requests'), count('builds'), count('hosted_manifests')],
      [30_000 * scale, 0, 0],
    );
    assert.equal(
      await hosted.totalBytes(),
      100_000_000 * scale,
      'blobs without manifests are orphans from now on',
    );
    const { freeBytes } = freeSpace(database);
    assert.ok(freeBytes <= 16 * 1024 * 1024, `${freeBytes} bytes of the file are free`);
    await database.end();
  });

  test('work in small steps can be ended, and releases the lock between the steps', async () => {
    await using directory = await makeTempDir('growth');
    const path = directory.join('sluice.db');
    const database = openDatabase(path, {});
    fillDatabase(database, { endedRequests: 50_000 });
    const other = openDatabase(path);
    const stop = new AbortController();
    const purging = createTokenRegistry(createRequestStore(database), dayMs, unlimited).purge(
      stop.signal,
    );
    let written = 0;
    while (written < 20) {
      await sleep(1);
      other.prepare('INSERT INTO users (email, created_at) VALUES (?, 1)').run(`${written}@a.org`);
      written += 1;
    }
    stop.abort(new Error('enough'));
    await assert.rejects(purging, /enough|aborted/);
    other.close();
    await database.end();
  });

  test('a lock of another process is waited for', async () => {
    await using directory = await makeTempDir('growth');
    const path = directory.join('sluice.db');
    const [database, other] = [openDatabase(path, {}), openDatabase(path)];
    fillDatabase(database, { endedRequests: 10 });
    other.exec('BEGIN IMMEDIATE');
    const purging = createTokenRegistry(createRequestStore(database), dayMs, unlimited).purge();
    await sleep(100);
    other.exec('COMMIT');
    await purging;
    assert.equal(database.prepare('SELECT COUNT(*) FROM requests').pluck().get(), 0);
    other.close();
    await database.end();
  });
});
