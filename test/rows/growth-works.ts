/** What a server does with many rows, for each database: `growth.test.ts`. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { createDigestFilter, markRequests } from '../../src/server/upkeep/sweep/marks.ts';
import { enterUnknown, sweep, unlinkOrphans } from '../../src/server/upkeep/sweep/sweep.ts';
import { createContentPresence } from '../../src/storage/content/content-presence.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { ContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { firstPlace, type HostedPlace } from '../../src/storage/rows/hosted/hosted-store.ts';
import type { BuildStore } from '../../src/storage/rows/images/build-rows.ts';
import type { Rows } from '../../src/storage/rows/rows.ts';
import { eachRow } from '../../src/storage/rows/small-steps.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import type { RowCounts } from '../world/many-rows.ts';

export const dayMs = 24 * 3_600_000;
export const unlimited = { async admitRequest() {} };
const empty = { read: async () => undefined } as unknown as Parameters<typeof markRequests>[0];

const mostMs = 50;

/** Runs works one after the other. None may hold the event loop for longer than 50 ms. */
export async function measureWorks(
  t: Pick<TestContext, 'diagnostic'>,
  works: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<void> {
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
}

/** Returns what {@link growthWorks} expects to be there: half a million rows, times the scale. */
export function growthCounts(scale: number): RowCounts {
  return {
    ...{ endedRequests: 100_000 * scale, liveRequests: 30_000 * scale },
    ...{ hostedBlobs: 100_000 * scale, orphans: 30_000 * scale },
    ...{ cachedBlobs: 100_000 * scale, endedBuilds: 20_000 * scale },
    ...{ contents: 20_000 * scale, packageLayers: 5000 * scale },
  };
}

/**
 * Returns all works, in the order in which they run.
 *
 * @param count returns the number of rows of a table
 */
export function growthWorks(
  rows: Rows,
  scale: number,
  count: (table: string) => Promise<number>,
): Record<string, () => Promise<unknown>> {
  const now = Date.now();
  const { hosted, requests, builds, cachedBlobs, contentRows, packageLayers } = rows;
  const bare = contentOfRows(contentRows, 5000 * scale);
  return {
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
      assert.equal(await unlinkOrphans(hosted, times, { isNeeded: () => false }), 30_000 * scale);
    },
    async 'rows for content that has none'() {
      assert.equal(await enterUnknown(bare, contentRows, { isDryRun: false }), 0);
      assert.equal(await count('contents'), 155_000 * scale);
    },
    async 'sweep of content'() {
      const deps = { ...rows, content: bare };
      const { removedCount, keptCount } = await sweep(deps, { graceMs: dayMs });
      assert.deepEqual([removedCount, keptCount], [20_000 * scale, 135_000 * scale]);
    },
    'purge of requests': () => createTokenRegistry(requests, dayMs, unlimited).purge(),
    'purge of package layers': () => packageLayers.purge(now - dayMs, now),
    'purge of builds': () => purgeBuilds(builds),
    'removal of a repository': () => hosted.removeManifests('many/kept'),
  };
}

/** Returns a content store that has the content of the rows, and the given number of contents without rows. */
export function contentOfRows(rows: ContentRowStore, count = 0): ContentStore {
  const presence = createContentPresence(rows, {
    size: async () => 1000,
    remove: async () => true,
  });
  return {
    ...presence,
    read: async () => undefined,
    removeDamaged: async () => 0,
    endTransfers: async () => 0,
    removeStrayDrafts: async () => 0,
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
