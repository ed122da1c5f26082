import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { RepodataProgress } from '../../../src/conda/repodata/repodata-progress.ts';
import { inRoom, threadNeeds } from '../../../src/conda/threads/thread-room.ts';
import { eventually } from '../../world/eventually.ts';
import { startScriptedChannel } from '../../world/scripted-channel.ts';
import { listed, solverFor } from '../solving/solver-world.ts';
import { repodataOf, shardedFiles } from './sharded.ts';

const signal = AbortSignal.timeout(300_000);
const options = { signal, log: () => {} };

async function start(t: TestContext, directory?: string) {
  const channel = await startScriptedChannel(t, ({ url }) =>
    url === '/c/noarch/repodata.json' ? repodataOf('noarch', ['tool 1.0']) : undefined,
  );
  const world = await solverFor(t, [listed(channel.url)], directory ? { directory } : {});
  const open = () => world.repodata.open(`${channel.url}/c`, 'noarch', options);
  return { channel, world, open, subdirectories: join(world.directory, 'subdirectories') };
}

test('what a killed server left half made is removed, and whole data is kept', async t => {
  const { world, open, subdirectories } = await start(t);
  const opened = await open();
  assert.ok(opened);
  opened[Symbol.dispose]();
  await world.repodata.close();
  const [own = ''] = await readdir(subdirectories);
  for (const left of ['1.download', '2.pack', '2.pack.records', '3.draft']) {
    await writeFile(join(subdirectories, own, left), 'half');
  }
  const half = join(subdirectories, 'half');
  await mkdir(half);
  await writeFile(join(half, 'entry.json'), '{"url":"http://x/c/noarch","pack":"4.pa');
  const later = await start(t, world.directory);
  await later.open();
  assert.deepEqual((await readdir(join(subdirectories, own))).toSorted().length, 2);
  assert.ok(!(await readdir(subdirectories)).includes('half'));
});

test('an entry whose file is gone counts as none', async t => {
  const { channel, open, subdirectories } = await start(t);
  const opened = await open();
  const asked = channel.requests.length;
  await rm(opened?.path ?? '');
  const again = await open();
  assert.ok(channel.requests.length > asked);
  assert.notEqual(again?.path, opened?.path);
  assert.ok((await readdir(subdirectories, { recursive: true })).length > 0);
});

test('data that is in use stays while newer data takes its place', async t => {
  let version = '1.0';
  const channel = await startScriptedChannel(t, ({ url }) =>
    url === '/c/noarch/repodata.json' ? repodataOf('noarch', [`tool ${version}`]) : undefined,
  );
  const { repodata, directory } = await solverFor(t, [listed(channel.url)], {
    repodata: { freshMs: 0 },
  });
  const open = () => repodata.open(`${channel.url}/c`, 'noarch', options);
  const packs = async () =>
    (await readdir(directory, { recursive: true })).filter(name => name.endsWith('.pack')).length;
  const first = await open();
  version = '2.0';
  const second = await open();
  assert.notEqual(first?.path, second?.path);
  assert.equal(await packs(), 2);
  first?.[Symbol.dispose]();
  second?.[Symbol.dispose]();
  version = '3.0';
  await open();
  assert.equal(await packs(), 1);
});

test('repository data that waits for the memory of another thread is not late', async t => {
  // A busy machine takes more than a second for the download and the start of a thread.
  const timeoutMs = 5000;
  const text = repodataOf('noarch', ['tool 1.0']);
  const channel = await startScriptedChannel(t, ({ url }) =>
    url === '/c/noarch/repodata.json' ? text : undefined,
  );
  const { repodata, directory } = await solverFor(t, [listed(channel.url)], {
    repodata: { timeoutMs },
  });
  const large = Promise.withResolvers<void>();
  const others = inRoom(threadNeeds.large, () => large.promise);
  const opened = repodata.open(`${channel.url}/c`, 'noarch', options);
  await eventually('the data is here', async () => {
    const names = await readdir(join(directory, 'subdirectories'), { recursive: true });
    return names.some(name => name.endsWith('.download'));
  });
  // It would be late by then.
  await once(AbortSignal.timeout(timeoutMs + 100), 'abort');
  large.resolve();
  await others;
  const found = await opened;
  assert.ok(found);
  found[Symbol.dispose]();
});

test('all who wait for repository data are told how far its download is', async t => {
  const text = Buffer.from(repodataOf('noarch', ['tool 1.0']));
  const goOn = Promise.withResolvers<void>();
  const channel = await startScriptedChannel(t, async ({ url }, response) => {
    if (url !== '/c/noarch/repodata.json') return void response.writeHead(404).end();
    response.writeHead(200, { 'content-length': text.length });
    response.write(text.subarray(0, 100));
    await goOn.promise;
    response.end(text.subarray(100));
  });
  const { repodata } = await solverFor(t, [listed(channel.url)]);
  const ask = async () => {
    const told: RepodataProgress[] = [];
    const half = Promise.withResolvers<void>();
    const report = (progress: RepodataProgress) => {
      told.push(progress);
      half.resolve();
    };
    const opened = repodata.open(`${channel.url}/c`, 'noarch', { ...options, report });
    await half.promise;
    return { told, opened };
  };
  const both = await Promise.all([ask(), ask()]);
  goOn.resolve();
  for (const { told, opened } of both) {
    (await opened)?.[Symbol.dispose]();
    const shown = told.map(({ tookMs, ...progress }) => progress);
    const size = { name: 'c/noarch', totalBytes: text.length };
    assert.deepEqual(shown[0], { ...size, bytes: 100, isDone: false });
    assert.deepEqual(shown.at(-1), { ...size, bytes: text.length, isDone: true });
  }
  const later: RepodataProgress[] = [];
  const report = (progress: RepodataProgress) => void later.push(progress);
  (await repodata.open(`${channel.url}/c`, 'noarch', { ...options, report }))?.[Symbol.dispose]();
  assert.deepEqual(later, []);
});

test('a solve is told how far its download of shards is, and nothing of those that are kept', async t => {
  const served = shardedFiles('noarch', {
    tool: [{ version: '1.0', depends: ['library'] }],
    library: [{ version: '2.0' }],
  });
  const sizes = [...served]
    .filter(([name]) => name.startsWith('shards/'))
    .map(([, it]) => it.length);
  const [first = 0] = sizes;
  const all = sizes.reduce((sum, size) => sum + size, 0);
  const goOn = Promise.withResolvers<void>();
  let asked = 0;
  const channel = await startScriptedChannel(t, async ({ url }, response) => {
    const bytes = served.get(url.replace('/c/noarch/', ''));
    if (!bytes) return void response.writeHead(404).end();
    if (url.includes('/shards/')) asked += 1;
    // The solver asks for a library once it knows what requires it.
    if (asked === 2) await goOn.promise;
    response.end(bytes);
  });
  const { solver } = await solverFor(t, [listed(channel.url)]);
  const solve = async (onTold: () => void = () => {}) => {
    const told: RepodataProgress[] = [];
    const packages = await solver.solve(
      { specs: ['tool'], channels: [`${channel.url}/c`], subdir: 'linux-64', virtualPackages: [] },
      {
        ...options,
        report(progress) {
          if (progress.name !== 'shards') return;
          told.push(progress);
          onTold();
        },
      },
    );
    assert.deepEqual(
      packages.map(({ name }) => name),
      ['library', 'tool'],
    );
    return told.map(({ tookMs, ...progress }) => progress);
  };
  const told = await solve(goOn.resolve);
  const shards = { name: 'shards', totalBytes: 0, isDone: false };
  assert.deepEqual(told[0], { ...shards, bytes: first });
  assert.deepEqual(told.at(-1), { ...shards, bytes: all, totalBytes: all, isDone: true });
  assert.equal(told.filter(({ isDone }) => isDone).length, 1);
  assert.deepEqual(await solve(), []);
});

test('shards are fetched once, also for those who ask at once, and survive a restart', async t => {
  const served = shardedFiles('noarch', { tool: [{ version: '1.0' }] });
  const channel = await startScriptedChannel(t, ({ url }) => served.get(url.replace('/c/', '')));
  const hex = [...served.keys()][0]?.slice('shards/'.length, -'.msgpack.zst'.length) ?? '';
  const { shards, directory } = await solverFor(t, [listed(channel.url)]);
  const read = (from: typeof shards) => from.read(`${channel.url}/c/shards/`, hex, signal);
  const [one, two] = await Promise.all([read(shards), read(shards)]);
  assert.deepEqual(one, two);
  await read(shards);
  const later = await solverFor(t, [listed(channel.url)], { directory });
  await read(later.shards);
  const last = await solverFor(t, [listed(channel.url)], { directory });
  await read(last.shards);
  assert.equal(channel.requests.length, 1);
});

test('a kept shard that the disk has damaged is fetched again', async t => {
  const served = shardedFiles('noarch', { tool: [{ version: '1.0' }] });
  const channel = await startScriptedChannel(t, ({ url }) => served.get(url.replace('/c/', '')));
  const hex = [...served.keys()][0]?.slice('shards/'.length, -'.msgpack.zst'.length) ?? '';
  const { shards, directory } = await solverFor(t, [listed(channel.url)]);
  const right = await shards.read(`${channel.url}/c/shards/`, hex, signal);
  const kept = (await readdir(directory, { recursive: true })).find(name => name.endsWith(hex));
  await writeFile(join(directory, kept ?? ''), 'damaged');
  assert.deepEqual(await shards.read(`${channel.url}/c/shards/`, hex, signal), right);
  assert.equal(channel.requests.length, 2);
});
