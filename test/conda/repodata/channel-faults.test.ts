import assert from 'node:assert/strict';
import { mkdir, readdir, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { DamagedPack, ShardPack } from '../../../src/conda/repodata/shards/shard-pack.ts';
import { eventually } from '../../world/eventually.ts';
import { startScriptedChannel } from '../../world/scripted-channel.ts';
import { listed, solverFor } from '../solving/solver-world.ts';
import { files, refused, start } from './faulty-channel.ts';
import { repodataOf, shardedFiles } from './sharded.ts';

const html = '<!DOCTYPE html><title>Sign in to the proxy</title>';

const usual = repodataOf('linux-64', ['tool 1.0']);
const forms = {
  'repodata.json': new Map([['repodata.json', usual]]),
  'repodata.json.zst': new Map([['repodata.json.zst', zstdCompressSync(usual)]]),
  shards: shardedFiles('linux-64', { tool: [{ version: '1.0' }] }),
};

for (const [form, served] of Object.entries(forms)) {
  test(`a channel is read that has ${form}`, async t => {
    const { solve } = await start(t, files(served));
    assert.deepEqual(await solve(), ['tool 1.0']);
  });
}

test('repodata.json may be sent with gzip', async t => {
  const { solve } = await start(t, ({ url }, response) => {
    if (!url.endsWith('linux-64/repodata.json')) return undefined;
    response.setHeader('content-encoding', 'gzip');
    return gzipSync(usual);
  });
  assert.deepEqual(await solve(), ['tool 1.0']);
});

test('a page of a proxy in place of repository data is refused', async t => {
  const { channel, solve } = await start(t, () => html);
  await refused(solve(), /is not repository data: it begins with .*DOCTYPE/);
  await refused(solve(), new RegExp(`${channel.url}/c/`));
});

test('data that is cut short or damaged is refused', async t => {
  const packed = zstdCompressSync(usual);
  for (const [name, bytes] of [
    ['repodata.json', usual.slice(0, -20)],
    ['repodata.json', usual.replace('"version"', 'version')],
    ['repodata.json', '{"error": "try later"}'],
    ['repodata.json.zst', packed.subarray(0, packed.length - 10)],
    ['repodata.json.zst', Buffer.concat([packed.subarray(0, 20), Buffer.alloc(40)])],
  ] as const) {
    const { solve } = await start(t, files(new Map([[name, bytes]])));
    await refused(solve(), /linux-64\/repodata\.json\S* (?:ends too early|is damaged|is not)/);
  }
});

test('a channel that is not there is refused', async t => {
  const { solve } = await start(t, () => undefined);
  await refused(solve(), /has no repository data for linux-64 or noarch \(404\): check its name/);
});

test('a channel that refuses its readers asks for credentials', async t => {
  const { solve } = await start(t, async (_, response) => void response.writeHead(401).end());
  await refused(solve(), /answered 401 .* credentials with channels in the configuration/);
});

test('data above the limits is refused', async t => {
  const bomb = zstdCompressSync(`{"info":{},"x":"${'x'.repeat(3_000_000)}"}`);
  const { solve } = await start(t, files(new Map([['repodata.json.zst', bomb]])), {
    repodata: { maxFileBytes: 1_000_000 },
  });
  await refused(solve(), /has more than 1000000 bytes/);
});

test('an index of shards that unpacks to too much is refused', async t => {
  const bomb = zstdCompressSync(Buffer.alloc(70 * 1024 * 1024));
  const { solve } = await start(t, files(new Map([['repodata_shards.msgpack.zst', bomb]])));
  await refused(solve(), /unpacks to more than/);
});

test('a shard with other bytes than its digest says is refused, and is not kept', async t => {
  const served = new Map(forms.shards);
  const [shard] = [...served.keys()].filter(name => name.startsWith('shards/'));
  const right = served.get(shard ?? '');
  served.set(shard ?? '', zstdCompressSync(Buffer.from('other')));
  const { solve } = await start(t, files(served));
  await refused(solve(), /has the wrong digest/);
  served.set(shard ?? '', right ?? Buffer.alloc(0));
  assert.deepEqual(await solve(), ['tool 1.0']);
});

test('a channel that breaks off once is asked again', async t => {
  let broken = 0;
  const { solve } = await start(t, ({ url }, response) => {
    if (!url.endsWith('linux-64/repodata.json')) return undefined;
    broken += 1;
    if (broken > 1) return usual;
    response.writeHead(200, { 'content-length': usual.length });
    response.write(usual.slice(0, 50));
    setImmediate(() => response.destroy());
    return Promise.resolve();
  });
  assert.deepEqual(await solve(), ['tool 1.0']);
  assert.equal(broken, 2);
});

test('kept data is used while the channel is down, and the log says so', async t => {
  const { channel, solve, lines } = await start(t, files(forms['repodata.json']), {
    repodata: { freshMs: 0 },
  });
  await solve();
  channel.script = async (_, response) => void response.writeHead(503).end();
  assert.deepEqual(await solve(), ['tool 1.0']);
  assert.match(lines.join('\n'), /answered 503 .* Its repository data of \S+ is used/);
  channel.script = () => html;
  assert.deepEqual(await solve(), ['tool 1.0']);
  await channel.stop();
  assert.deepEqual(await solve(), ['tool 1.0']);
});

test('data that did not change is asked for with its ETag, and not sent again', async t => {
  let sent = 0;
  const { channel, solve } = await start(
    t,
    (request, response) => {
      if (!request.url.endsWith('linux-64/repodata.json')) return undefined;
      response.setHeader('etag', '"one"');
      if (request.headers['if-none-match'] === '"one"') {
        response.writeHead(304).end();
        return Promise.resolve();
      }
      sent += 1;
      return usual;
    },
    { repodata: { freshMs: 0 } },
  );
  await solve();
  await solve();
  assert.equal(sent, 1);
  assert.ok(channel.requests.filter(path => path.endsWith('linux-64/repodata.json')).length > 1);
});

test('data is used without a question while it is fresh, also by a server that starts later', async t => {
  const { channel, solve, world } = await start(t, files(forms['repodata.json']));
  await solve();
  const asked = channel.requests.length;
  await solve();
  assert.equal(channel.requests.length, asked);
  await world.solver.close();
  await world.repodata.close();
  const later = await solverFor(t, [listed(channel.url)], { directory: world.directory });
  const solution = await later.solver.solve(
    {
      ...{ specs: ['tool'], subdir: 'linux-64', virtualPackages: [] },
      channels: [`${channel.url}/c[linux-64]`],
    },
    { signal: AbortSignal.timeout(300_000), log: () => {} },
  );
  assert.equal(solution[0]?.version, '1.0');
  assert.equal(channel.requests.filter(path => path.includes('linux-64/repodata.json')).length, 2);
});

test('all who ask at once share one fetch, and one who leaves does not disturb the others', async t => {
  const { promise: mayRespond, resolve: respond } = Promise.withResolvers<void>();
  const { channel, solve } = await start(t, ({ url }, response) => {
    if (!url.endsWith('linux-64/repodata.json')) return undefined;
    return mayRespond.then(() => void response.writeHead(200).end(usual));
  });
  const leaving = new AbortController();
  const left = solve(['tool'], leaving.signal);
  const others = [solve(), solve(), solve()];
  await eventually('the channel is asked', () =>
    channel.requests.some(path => path.endsWith('linux-64/repodata.json')),
  );
  leaving.abort(new Error('the caller left'));
  await assert.rejects(left, /the caller left/);
  respond();
  for (const other of others) assert.deepEqual(await other, ['tool 1.0']);
  assert.equal(channel.requests.filter(path => path.endsWith('linux-64/repodata.json')).length, 1);
});

test('a shard that does not arrive ends its own solve only', async t => {
  const served = shardedFiles('linux-64', {
    tool: [{ version: '1.0' }],
    other: [{ version: '2' }],
  });
  const [, slow] = [...served.keys()].filter(name => name.startsWith('shards/'));
  const { solve } = await start(
    t,
    ({ url }) => {
      const file = url.replace('/c/linux-64/', '');
      return file === slow ? new Promise<void>(() => {}) : served.get(file);
    },
    // Enough for the other solve on a busy machine.
    { limits: { timeout: 4000 } },
  );
  const stuck = refused(solve(['other']), /was not solved within 4 s/);
  assert.deepEqual(await solve(['tool']), ['tool 1.0']);
  await stuck;
});

test('kept data that the disk has damaged or lost is fetched again, without a word about files', async t => {
  const { solve, world, lines } = await start(t, files(forms['repodata.json']));
  const subdirectories = join(world.directory, 'subdirectories');
  const packs = async () => {
    const names = await readdir(subdirectories, { recursive: true });
    return names.filter(name => name.endsWith('.pack')).map(name => join(subdirectories, name));
  };
  await solve();
  for (const pack of await packs()) await truncate(pack, 30);
  assert.deepEqual(await solve(), ['tool 1.0']);
  assert.match(lines.join('\n'), /damaged and is fetched again/);
  for (const pack of await packs()) {
    await rm(pack);
    // It may be gone between the look for it and its use.
    assert.throws(() => new ShardPack(pack), DamagedPack);
  }
  assert.deepEqual(await solve(), ['tool 1.0']);
  for (const pack of await packs()) {
    await rm(pack);
    await mkdir(pack);
  }
  await assert.rejects(solve(), {
    kind: 'internal',
    message: /^The server cannot read its repository data \(EISDIR\): try again later/,
  });
});

test('the least recently used data is removed when there is too much', async t => {
  const channel = await startScriptedChannel(t, ({ url }) =>
    /\/linux-64\/repodata\.json$/.test(url) ? usual : undefined,
  );
  const { solver, directory } = await solverFor(t, [listed(channel.url)], {
    repodata: { maxBytes: 900 },
  });
  for (const name of ['a', 'b', 'c', 'd']) {
    await solver.solve(
      {
        ...{ specs: ['tool'], subdir: 'linux-64', virtualPackages: [] },
        channels: [`${channel.url}/${name}`],
      },
      { signal: AbortSignal.timeout(300_000), log: () => {} },
    );
  }
  const names = await readdir(join(directory, 'subdirectories'), { recursive: true });
  const packs = names.filter(name => name.endsWith('.pack'));
  assert.ok(packs.length > 0 && packs.length < 4, String(packs.length));
});

test('a channel that fails is reported although another one does not answer', async t => {
  const slow = await startScriptedChannel(t, () => new Promise<void>(() => {}));
  const absent = await startScriptedChannel(t, () => undefined);
  const { solver } = await solverFor(t, [listed(slow.url), listed(absent.url)]);
  const request = {
    ...{ specs: ['tool'], subdir: 'linux-64', virtualPackages: [] },
    channels: [`${slow.url}/c`, `${absent.url}/c`],
  };
  const solve = solver.solve(request, { signal: AbortSignal.timeout(300_000), log: () => {} });
  await refused(solve, /has no repository data for linux-64 or noarch/);
});

test('names that could lead out of a folder are refused', async t => {
  for (const [right, wrong] of [
    ['"build":"0"', '"build":"../../0"'],
    ['tool-1.0-0.conda', '../tool-1.0-0.conda'],
  ] as const) {
    const data = usual.replaceAll(right, wrong);
    const { solve } = await start(t, files(new Map([['repodata.json', data]])));
    await refused(solve(), /has a name that cannot be used/);
  }
});

test('no address of a package holds a secret of its channel', async t => {
  const base = 'https://ann:secret@files.example/t/tk-1/c/linux-64';
  const data = usual.replace('"info":{', `"info":{"base_url":"${base}",`);
  for (const served of [
    new Map([['repodata.json', data]]),
    shardedFiles('linux-64', { tool: [{ version: '1.0' }] }, './shards/', base),
  ]) {
    const channel = await startScriptedChannel(t, files(served));
    const { solver } = await solverFor(t, [listed(channel.url)]);
    const [tool] = await solver.solve(
      {
        ...{ specs: ['tool'], subdir: 'linux-64', virtualPackages: [] },
        channels: [`${channel.url}/c`],
      },
      { signal: AbortSignal.timeout(300_000), log: () => {} },
    );
    assert.equal(tool?.url, 'https://files.example/c/linux-64/tool-1.0-0.conda');
    assert.equal(tool?.record?.name, 'tool');
  }
});
