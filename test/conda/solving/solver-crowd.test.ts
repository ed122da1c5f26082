import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { boundMs, longestBlock } from '../../world/longest-block.ts';
import { startScriptedChannel } from '../../world/scripted-channel.ts';
import { listed, solverFor } from './solver-world.ts';

const names = 1500;
const environments = 50;
const MiB = 2 ** 20;

/** A channel with some popular packages of many versions, and a long tail. */
function channelData(): Buffer {
  const entries: [string, object][] = [];
  for (let id = 0; id < names; id += 1) {
    const versions = id < 40 ? 150 : 8;
    for (let at = 0; at < versions; at += 1) {
      const name = nameOf(id);
      const version = `1.${at}.0`;
      const depends =
        id === 0 ? [] : [1, 2, 3].map(k => `${nameOf((id * 31 * k) % Math.min(id, 80))} >=1.0`);
      const record = { name, version, build: 'h0_0', build_number: 0, depends, subdir: 'linux-64' };
      entries.push([
        `${name}-${version}-h0_0.conda`,
        { ...record, license: 'MIT', size: 1000 + at },
      ]);
    }
  }
  const data = { info: { subdir: 'linux-64' }, 'packages.conda': Object.fromEntries(entries) };
  return zstdCompressSync(JSON.stringify(data));
}

const nameOf = (id: number) => `package-${id}`;

test('50 different environments at once are all solved, in little memory, without blocking the server', async t => {
  const data = channelData();
  const channel = await startScriptedChannel(t, ({ url }) =>
    url === '/c/linux-64/repodata.json.zst' ? data : undefined,
  );
  const { solver } = await solverFor(t, [listed(channel.url)]);
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 10);
  const solve = async (at: number) => {
    const specs = [0, 1, 2, 3].map(k => nameOf((at * 97 + k * 331) % names));
    const request = {
      specs,
      channels: [`${channel.url}/c`],
      subdir: 'linux-64',
      virtualPackages: [],
    };
    const solution = await solver.solve(request, { signal: t.signal, log: () => {} });
    assert.ok(specs.every(name => solution.some(one => one.name === name)));
    assert.ok(solution.every(({ record }) => record?.license === 'MIT'));
    return solution.length;
  };
  const block = await longestBlock(async () => {
    await Promise.all(Array.from({ length: environments }, (_, at) => solve(at)));
  });
  clearInterval(watch);
  t.diagnostic(`${Math.round((peak - before) / MiB)} MiB more, ${Math.round(block.cpuMs)} ms`);
  assert.ok(block.cpuMs < boundMs(50), `the event loop was held for ${block.cpuMs} ms`);
  assert.ok(peak - before < 180 * MiB, `${Math.round((peak - before) / MiB)} MiB more`);
  assert.equal(
    channel.requests.filter(path => path.endsWith('linux-64/repodata.json.zst')).length,
    1,
  );
});
