import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createCommitFinder } from '../../../src/pypi/repositories/commit-finder.ts';
import type { HttpRequest, Transport } from '../../../src/upstream/index.ts';

const id = (digit: string) => digit.repeat(40);
const packet = (line: string) => `${(line.length + 4).toString(16).padStart(4, '0')}${line}`;
const url = 'https://h.test/a.git';
const { signal } = new AbortController();

/** Answers every request with a text in chunks of so many bytes. */
function finderOf(text: string, chunk = 7, status = 200, maxPackets?: number) {
  const asked: string[] = [];
  const transport = {
    async sendBlob({ url }: HttpRequest) {
      asked.push(url.href);
      let at = 0;
      const read = async () => {
        if (at >= text.length) return null;
        const bytes = Buffer.from(text.slice(at, at + chunk));
        at += chunk;
        return { bytes, release() {} };
      };
      return { status, headers: new Headers(), body: { read, destroy() {} } };
    },
  } as unknown as Transport;
  return {
    ...createCommitFinder(transport, maxPackets === undefined ? {} : { maxPackets }),
    asked,
  };
}

const listed = [
  ...[packet('# service=git-upload-pack\n'), '0000', packet(`${id('1')} HEAD\0caps symref=HEAD\n`)],
  ...[packet(`${id('1')} refs/heads/main\n`), packet(`${id('2')} refs/heads/both\n`)],
  ...[packet(`${id('3')} refs/pull/7/head\n`), packet(`${id('4')} refs/tags/both\n`)],
  ...[packet(`${id('5')} refs/tags/v1\n`), packet(`${id('6')} refs/tags/v1^{}\n`), '0000'],
].join('');

test('a branch or tag has the commit that the repository lists', async () => {
  const finder = finderOf(listed);
  const found = {
    main: '1',
    both: '2',
    v1: '6',
    'refs/pull/7/head': '3',
    'refs/tags/both': '4',
    'refs/tags/v1': '6',
    HEAD: '1',
  };
  for (const [revision, digit] of Object.entries(found)) {
    assert.equal(await finder.commitOf(url, revision, signal), id(digit), revision);
  }
  assert.equal(await finder.commitOf(url, undefined, signal), id('1'));
  assert.equal(finder.asked[0], `${url}/info/refs?service=git-upload-pack`);
  const { length } = finder.asked;
  assert.equal(await finder.commitOf(url, id('9'), signal), id('9'));
  assert.equal(finder.asked.length, length);
});

test('what is missing, and what is not a repository, is refused', async () => {
  const fails = async (finder: ReturnType<typeof finderOf>, message: RegExp, revision = 'main') =>
    assert.rejects(finder.commitOf(url, revision, signal), message);
  await fails(finderOf(listed), /a\.git has no branch or tag 'none'$/, 'none');
  await fails(finderOf(listed), /'1234567': write all 40 digits of a commit/, '1234567');
  await fails(finderOf('<html>not git</html>'), /does not answer as git does: check that it is/);
  const other = /does not answer as git does/;
  await fails(finderOf('fff5'), other);
  const [end, line] = ['0000', packet(`${id('1')} refs/heads/main\n`)];
  for (const odd of ['0004', '0005a', '0001', '0003', packet('main\n'), packet(`${id('1')}\n`)]) {
    await fails(finderOf(`${line}${odd}${end}`), other);
  }
  await fails(finderOf(`${end}${line}${end}${end}`), other);
  await fails(
    finderOf(packet('# ').repeat(5), 9, 200, 4),
    /lists references with more than 4 lines/,
  );
  await fails(finderOf(listed.slice(0, -20)), /ends too early/);
  await fails(finderOf('', 1, 401), /cannot be read: h\.test answered 401: .* in 'pypi'$/);
  const words = `${'7'.repeat(64)} HEAD\0multi_ack object-format=sha256 agent=git\n`;
  await fails(finderOf(`${packet(words)}${end}`), /names its commits by SHA-256, which is not/);
  const endless = packet(`${id('1')} refs/x/${'y'.repeat(60_000)}\n`).repeat(1200);
  await fails(finderOf(endless, 65_536), /lists references with more than 67108864 bytes/);
});

test('a repository is asked at the address that it is built from', async () => {
  const finder = finderOf(listed);
  assert.equal(await finder.commitOf('https://h.test/a', 'main', signal), id('1'));
  assert.deepEqual(finder.asked, ['https://h.test/a.git/info/refs?service=git-upload-pack']);
});

test('other references of real repositories are passed over', async () => {
  const more = [
    packet('version 1\n'),
    packet(`${id('0')} capabilities^{}\0caps\n`),
    packet(`shallow ${id('1')}\n`),
    packet(`${'7'.repeat(64)} refs/heads/main\n`),
  ];
  const text = `${more.join('')}${packet(`${id('1')} refs/heads/main\n`)}0000`;
  assert.equal(await finderOf(text).commitOf(url, 'main', signal), id('1'));
});

test('a repository that answers too slowly is given up', async () => {
  const transport = {
    async sendBlob({ signal }: HttpRequest) {
      const { promise, resolve, reject } = Promise.withResolvers<null>();
      const end = setTimeout(resolve, 5000, null);
      signal?.addEventListener('abort', () => {
        clearTimeout(end);
        reject(signal.reason);
      });
      const body = { read: () => promise, destroy() {} };
      return { status: 200, headers: new Headers(), body };
    },
  } as unknown as Transport;
  await assert.rejects(
    createCommitFinder(transport, { timeoutMs: 20 }).commitOf(url, 'main', signal),
    /a\.git did not list its branches and tags within 0\.02 s: try again later$/,
  );
});

test('many references leave turns to other work', async () => {
  let turns = 0;
  const count = setInterval(() => (turns += 1), 1);
  const line = packet(`${id('1')} refs/x/y\n`);
  // All in one chunk.
  await finderOf(`${line.repeat(100_000)}${listed}`, 1e9).commitOf(url, 'main', signal);
  clearInterval(count);
  assert.ok(turns >= 3, `${turns}`);
});
