/** Descriptions of packages, from channels that anybody can name. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createChannelSummaries } from '../../../src/conda/search/channel-summaries.ts';
import { sourceOfBytes } from '../../../src/storage/content/byte-source.ts';
import { eventually } from '../../world/eventually.ts';
import { boundMs, longestBlock } from '../../world/longest-block.ts';

const base = 'https://conda.test/channel';

/** Returns the descriptions of a channel, when all are here. */
async function summariesOf(t: TestContext, text: string) {
  const body = sourceOfBytes(gzipSync(text, { level: 1 }));
  const headers = new Map([['content-encoding', 'gzip']]);
  const response = { status: 200, headers, contentLength: undefined, body };
  const channels = { open: async () => response };
  const summaries = createChannelSummaries({ channels });
  t.after(() => summaries.close());
  const watch = await longestBlock(async () => {
    summaries.prepare(base);
    await eventually('all are here', () => !summaries.isFetching(base));
  });
  return { summaries, ...watch };
}

test('what a channel says about a package is known when its file was read', async t => {
  const packages = {
    bwa: {
      summary: 'An aligner\nfor   short reads',
      version: '0.7.18',
      more: ['x'.repeat(100_000)],
    },
    none: {},
  };
  const { summaries } = await summariesOf(t, JSON.stringify({ packages }));
  const about = { summary: 'An aligner for short reads', version: '0.7.18' };
  assert.deepEqual(summaries.of(base, 'bwa'), about);
  assert.equal(summaries.of(base, 'none'), undefined);
});

test('a record that would hold the event loop is not read', async t => {
  const record = `{"version":"1","x":[${'[],'.repeat(5 * 2 ** 20)}[]]}`;
  const { summaries, cpuMs } = await summariesOf(t, `{"packages":{"a":${record}}}`);
  assert.equal(summaries.of(base, 'a'), undefined);
  const bound = boundMs(50);
  assert.ok(cpuMs < bound, `held for ${cpuMs} ms, at most ${bound}`);
});

test('a file with very many packages is not read to its end', async t => {
  const names = Array.from({ length: 100_001 }, (_, at) => `"${at.toString(36)}":{"version":"1"}`);
  const { summaries } = await summariesOf(t, `{"packages":{${names.join(',')}}}`);
  assert.equal(summaries.of(base, '1'), undefined);
});
