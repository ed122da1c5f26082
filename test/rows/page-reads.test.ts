/** Pages of lists, repositories and figures read few of many rows. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Builds } from '../../src/builds/builds.ts';
import { Fault } from '../../src/foundation/fault.ts';
import {
  listRepositories,
  listUntagged,
  type RepositorySources,
  viewRepository,
} from '../../src/hosted/listings/repository-view.ts';
import { type BuildListSources, listBuilds } from '../../src/http/api/builds/build-list.ts';
import { readContainerPulls } from '../../src/pages/containers/container-pulls.ts';
import { pullsTab } from '../../src/pages/usage/pulls-tab.ts';
import { rangeOf, type UsagePageDeps, usageOf } from '../../src/pages/usage/usage-data.ts';
import type { ContainerToken } from '../../src/request/tokens/container-token.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { rowsOf } from '../../src/storage/rows/rows.ts';
import { boundMs, longestBlock } from '../world/longest-block.ts';
import { fillDatabase } from '../world/many-rows.ts';
import { makeTempDir } from '../world/temp-dir.ts';

// SCALE=20 is ten million rows: by hand.
const scale = Number(process.env.SCALE ?? 1);
const mostMs = 50;
const rounds = 10;

suite(`${scale / 2} million rows`, () => {
  test('pages read their rows in less than 50 ms', async t => {
    await using directory = await makeTempDir('page-reads');
    const database = openDatabase(directory.join('sluice.db'), {});
    fillDatabase(database, {
      ...{ endedBuilds: 50_000 * scale, repositories: 20_000 * scale, tags: 50_000 * scale },
      ...{ pulls: 270_000 * scale, usage: 40_000 * scale, dayCounts: 20_000 * scale },
    });
    database.pragma('wal_checkpoint(TRUNCATE)');
    const rows = rowsOf(database);
    const { hosted: store, pulls, buildList } = rows;
    // The documents of these rows do not exist: pages show what the rows say.
    const missing = async () => {
      throw new Fault('not-found', 'no such manifest', { phase: 'request' });
    };
    const repositories = { store, pulls, manifests: { get: missing } };
    const sources = repositories as unknown as RepositorySources;
    const isOf: Builds['isOf'] = () => true;
    const get = (id: string) => rows.builds.find(id);
    const builds = { buildList, logs: { steps: async () => undefined }, builds: { isOf, get } };
    const list = (owner: string | undefined, filter: Parameters<typeof listBuilds>[1]) =>
      listBuilds(
        owner === undefined ? undefined : { owner, limits: '' },
        filter,
        builds as unknown as BuildListSources,
      );
    const deps = { figures: rows, usage: rows.usage } as unknown as UsagePageDeps;
    const month = rangeOf(undefined, undefined);
    const everything = () => ['pull'] as const;
    const nothing = () => [];
    const middle = `wide/r${String(10_000 * scale).padStart(8, '0')}`;

    const reads: Record<string, () => Promise<unknown>> = {
      async 'builds of everybody'() {
        assert.equal((await list(undefined, {})).builds.length, 25);
      },
      async 'builds from the middle'() {
        const before = 25_000 * scale;
        assert.equal((await list(undefined, { before })).builds.length, 25);
      },
      async 'builds of an owner'() {
        assert.equal((await list('192.0.2.1', { state: 'failed' })).builds.length, 25);
      },
      async 'no running builds'() {
        assert.deepEqual((await list(undefined, { state: 'running' })).builds, []);
      },
      async 'builds of a stranger'() {
        assert.deepEqual((await list('nobody', {})).builds, []);
      },
      async 'builds by a text that none has'() {
        assert.equal((await list(undefined, { target: 'no such' })).isPartial, true);
      },
      async repositories() {
        const { repositories: found } = await listRepositories(everything, '', middle, sources);
        assert.equal(found.length, 50);
        assert.ok(found.some(one => one.pulls.lastAt !== undefined));
      },
      async 'repositories of a viewer without rights'() {
        // Nothing in the response says that there are repositories.
        const seen = await listRepositories(nothing, '', '', sources);
        assert.deepEqual(seen, { repositories: [], next: undefined });
      },
      async 'tags of a repository'() {
        const { tags } = await viewRepository('many/tags', 't00000100', sources);
        assert.equal(tags.length, 20);
        assert.ok(tags.some(one => one.pulls.lastAt !== undefined));
      },
      async 'untagged images'() {
        const { images, next } = await listUntagged('many/tags', '', sources);
        assert.deepEqual([images, typeof next], [[], 'string']);
      },
      async 'pulls of a container'() {
        const token = 'a'.repeat(32) as ContainerToken;
        assert.equal((await readContainerPulls(token, pulls)).count, 0);
      },
      async 'pulls of a month by image'() {
        const { sections } = await pullsTab.read(month, deps);
        assert.ok((sections[0]?.table.rows.length ?? 0) > 0);
      },
      async 'pulls of a month by organisation'() {
        assert.ok((await usageOf('pulls', month, rows.usage)).total > 0);
      },
    };
    for (const [name, read] of Object.entries(reads)) {
      // The statements are compiled, and the pages of the file are read, once.
      await read();
      // Processor time is counted in steps of some ms.
      const before = process.threadCpuUsage();
      for (let round = 0; round < rounds; round += 1) await read();
      const { user, system } = process.threadCpuUsage(before);
      const tookMs = (user + system) / 1000 / rounds;
      t.diagnostic(`${name}: ${tookMs.toFixed(1)} ms`);
      const bound = boundMs(mostMs);
      assert.ok(tookMs < bound, `${name} took ${tookMs} ms, ${bound} are allowed`);
    }

    const pulled = Number(database.prepare('SELECT COUNT(*) FROM pulls').pluck().get());
    const oldest = new Date(Date.now() - 50 * 24 * 3_600_000).toISOString().slice(0, 10);
    const began = performance.now();
    const { cpuMs } = await longestBlock(async () => {
      assert.ok((await pulls.purge(oldest)) > pulled / 4);
    });
    t.diagnostic(
      `purge of pulls: ${Math.round(performance.now() - began)} ms, at most ${cpuMs.toFixed(1)} ms at a time`,
    );
    assert.ok(cpuMs < boundMs(mostMs), `the purge held the event loop for ${cpuMs} ms`);
    assert.equal(
      database.prepare('SELECT COUNT(*) FROM pulls WHERE day < ?').pluck().get(oldest),
      0,
    );
    await database.end();
  });
});
