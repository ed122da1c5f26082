/** Repository data that is made to harm is refused with its reason, in bounded memory, and beside a free event loop. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { pack } from '../../../src/conda/repodata/shards/msgpack.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { startScriptedChannel } from '../../world/scripted-channel.ts';
import { listed, solverFor } from '../solving/solver-world.ts';
import { files, refused, start } from './faulty-channel.ts';
import { repodataOf, shardedFiles } from './sharded.ts';

const usual = repodataOf('linux-64', ['tool 1.0']);
const plain = (data: string) => files(new Map([['repodata.json', data]]));

/** Sharded data whose only shard has any bytes, with their right digest. */
function shardOf(bytes: Buffer): Map<string, Buffer> {
  const served = new Map(shardedFiles('linux-64', {}));
  const digest = createHash('sha256').update(bytes).digest();
  const info = { subdir: 'linux-64', base_url: './', shards_base_url: './shards/' };
  served.set(
    'repodata_shards.msgpack.zst',
    zstdCompressSync(pack({ info, shards: { tool: digest } })),
  );
  served.set(`shards/${digest.toString('hex')}.msgpack.zst`, bytes);
  return served;
}

test('a shard that unpacks to too much is refused, however small it is', async t => {
  const bomb = zstdCompressSync(Buffer.alloc(1024 * 1024 * 1024));
  assert.ok(bomb.length < 200_000);
  const { solve } = await start(t, files(shardOf(bomb)));
  const before = process.memoryUsage.rss();
  await refused(solve(), /unpacks to more than 33554432 bytes/);
  assert.ok(process.memoryUsage.rss() - before < 200 * 2 ** 20);
});

test('a shard of something else is refused', async t => {
  const wrong: [Buffer, RegExp][] = [
    [Buffer.from('<html>'), /is not repository data: it begins with "<html>"/],
    [zstdCompressSync('no MessagePack'), /damaged or incomplete|has no packages/],
    [zstdCompressSync(pack({ 'packages.conda': {} })), /has no packages/],
    [zstdCompressSync(pack(7)), /has no packages/],
    [Buffer.alloc(0), /is not repository data/],
  ];
  for (const [bytes, reason] of wrong) {
    const { solve } = await start(t, files(shardOf(bytes)));
    await refused(solve(), reason);
  }
});

test('records that are nested too deeply are refused', async t => {
  const deep = `${'['.repeat(5000)}${']'.repeat(5000)}`;
  const { solve } = await start(
    t,
    plain(usual.replace('"depends":[]', `"depends":[],"x":${deep}`)),
  );
  await refused(solve(), /repodata\.json .*nested too deeply/);
});

test('names with a zero, a line end or a control character are refused', async t => {
  for (const [right, wrong] of [
    ['"name":"tool"', '"name":"tool\\u0000"'],
    ['"build":"0"', '"build":"0\\n0"'],
    ['"build":"0"', '"build":"\\u001b[31m0"'],
    ['tool-1.0-0.conda', 'tool-1.0-0\\n.conda'],
    ['tool-1.0-0.conda', 'tool-1.0-0\\u0000.conda'],
    ['tool-1.0-0.conda', 'tool-1.0-0.conda\\n'],
  ] as const) {
    const { solve } = await start(t, plain(usual.replaceAll(right, wrong)));
    await assert.rejects(solve(), (error: Error) => {
      assert.match(error.message, /cannot be used|has no solution|cannot be read|no candidates/i);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not reach a terminal.
      assert.doesNotMatch(error.message, /[\0-\x09\x0b-\x1f\x7f]/, JSON.stringify(error.message));
      return true;
    });
  }
});

test('an explanation has no control characters, whatever a channel writes', async t => {
  const data = usual.replace('"depends":[]', '"depends":["absent\\u001b[2J >=\\u0007 1"]');
  const { solve } = await start(t, plain(data));
  await assert.rejects(solve(), (error: Error) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not reach a terminal.
    assert.doesNotMatch(error.message, /[\0-\x09\x0b-\x1f\x7f]/, JSON.stringify(error.message));
    return true;
  });
});

test('packages that require each other, and themselves, are solved', async t => {
  const record = (name: string, depends: string[]) => [
    `${name}-1.0-0.conda`,
    { name, version: '1.0', build: '0', build_number: 0, depends, subdir: 'linux-64' },
  ];
  const entries = [record('tool', ['ring', 'tool']), record('ring', ['tool >=1', 'ring'])];
  const data = JSON.stringify({ packages: {}, 'packages.conda': Object.fromEntries(entries) });
  const { solve } = await start(t, plain(data));
  assert.deepEqual(await solve(), ['ring 1.0', 'tool 1.0']);
});

test('a package with very many or very long dependencies is refused or left out, and holds nothing up', async t => {
  const depends = JSON.stringify(Array.from({ length: 50_000 }, (_, at) => `absent-${at} >=1`));
  const { solve } = await start(t, plain(usual.replace('"depends":[]', `"depends":${depends}`)));
  const { cpuMs } = await longestBlock(() => assert.rejects(solve()));
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('a record that is larger than any package needs does not reach the main thread', async t => {
  const words = JSON.stringify(Array.from({ length: 400_000 }, (_, at) => `a word, ${at}`));
  const { solve } = await start(
    t,
    plain(usual.replace('"depends":[]', `"depends":[],"x":${words}`)),
  );
  const { cpuMs } = await longestBlock(() => refused(solve(), /records of more than/));
  assert.ok(cpuMs < boundMs(50), `held for ${cpuMs} ms`);
});

test('a million records are cut without the server growing or its event loop waiting', async t => {
  const records = function* () {
    yield '{"info":{"subdir":"linux-64"},"packages":{},"packages.conda":{';
    for (let at = 0; at < 1_000_000; at += 1) {
      const name = at === 999_999 ? 'tool' : `p${at % 30_000}`;
      yield `${at > 0 ? ',' : ''}"${name}-${at}-0.conda":{"name":"${name}","version":"${at}","build":"0","build_number":0,"depends":[],"subdir":"linux-64"}`;
    }
    yield '}}';
  };
  const channel = await startScriptedChannel(t, async (request, response) => {
    if (request.url !== '/c/linux-64/repodata.json') return void response.writeHead(404).end();
    response.writeHead(200);
    let batch = '';
    for (const text of records()) {
      batch += text;
      if (batch.length < 64 * 1024) continue;
      if (!response.write(batch)) await new Promise(resolve => response.once('drain', resolve));
      batch = '';
    }
    response.end(batch);
  });
  const { solver } = await solverFor(t, [listed(channel.url)]);
  const solveRequest = {
    specs: ['tool'],
    subdir: 'linux-64',
    virtualPackages: [],
    channels: [`${channel.url}/c`],
  };
  const before = process.memoryUsage.rss();
  const [tool] = await solver.solve(solveRequest, {
    signal: AbortSignal.timeout(600_000),
    log: () => {},
  });
  assert.equal(tool?.version, '999999');
  const grown = (process.memoryUsage.rss() - before) / 2 ** 20;
  assert.ok(grown < 250, `grew by ${Math.round(grown)} MiB`);
});

test('a million packages of different names are refused or cut, and the process lives', async t => {
  const records = Array.from(
    { length: 1_000_000 },
    (_, at) =>
      `"${at}-1-0.conda":{"name":"a-name-that-is-not-short-${at}","version":"1","build":"0","build_number":0,"depends":[],"subdir":"linux-64"}`,
  );
  const data = zstdCompressSync(`{"packages":{},"packages.conda":{${records.join(',')}}}`);
  const { solve, world } = await start(t, files(new Map([['repodata.json.zst', data]])));
  await refused(
    solve(),
    /has more packages than fit into the memory|no candidates were found for tool/i,
  );
  // Nothing half made is left.
  const left = await readdir(join(world.directory, 'subdirectories'));
  assert.deepEqual(
    left.filter(name => /download|records/.test(name)),
    [],
  );
});

test('shards and archives at a closed address are not asked for', async t => {
  const closed = await startScriptedChannel(t, () => 'secret');
  const address = `${closed.url.replace('127.0.0.1', 'localhost')}/`;
  const { solve } = await start(
    t,
    files(shardedFiles('linux-64', { tool: [{ version: '1.0' }] }, address)),
  );
  await refused(solve(), /private|loopback|closed|address/i);
  assert.deepEqual(closed.requests, []);
});
