/** Wheels that a request names by their addresses: what is read of them, and what is refused. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { createArchiveFetch } from '../../../src/conda/index.ts';
import {
  createAddressedWheels,
  createIndexAccess,
  hostsOfIndexes,
} from '../../../src/pypi/index.ts';
import { openContentDirectory } from '../../../src/storage/content/content-directory.ts';
import { createTransport, withoutReach } from '../../../src/upstream/index.ts';
import { usualLimits } from '../../conda/layers/layer-world.ts';
import { eventually } from '../../world/eventually.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { startIndex } from '../solving/scripted-index.ts';
import { indexAt } from '../solving/solving-world.ts';
import { rawZip, wheelOf } from './made-wheel.ts';

const host = 'https://files.test';
const others = ['https://slow.test', 'https://slower.test'];

/** Reads wheels of a host, which a test answers for. */
async function worldOf(t: TestContext) {
  const directory = await makeTempDir('addressed');
  const server = await startIndex(t, (_, response) => void response.end());
  const indexes = [host, ...others].map(url => indexAt(server.origin, url));
  const hosts = hostsOfIndexes(indexes);
  const timeouts = { connectMs: 5000, headersMs: 10_000, idleMs: 10_000 };
  const transport = createTransport(hosts, timeouts);
  const guarded = createTransport(withoutReach(hosts), timeouts);
  const retry = { attempts: 1, firstDelayMs: 10, longestDelayMs: 10 };
  const channels = createIndexAccess({ indexes, transport, guarded, retry });
  const content = await openContentDirectory(directory.path);
  const fetchWheel = createArchiveFetch({ channels, content, limits: usualLimits });
  t.after(async () => {
    await Promise.all([transport.close(), guarded.close()]);
    await directory.remove();
  });
  const { read } = createAddressedWheels(fetchWheel);
  const nothingLeft = () =>
    eventually('no file is left', async () => (await readdir(directory.join('tmp'))).length === 0);
  return {
    server,
    read: (
      wheel: Parameters<typeof read>[0],
      more: { readonly signal?: AbortSignal; readonly isAnonymous?: boolean } = {},
    ) => read(wheel, { signal: t.signal, ...more }),
    nothingLeft,
  };
}

const lib = {
  ...{ name: 'lib', version: '1.0', fileName: 'lib-1.0-py3-none-any.whl' },
  url: `${host}/w/lib-1.0-py3-none-any.whl`,
};
const { bytes } = wheelOf({ name: 'lib', metadata: 'Requires-Dist: other>=2\n' });
const sha256 = createHash('sha256').update(bytes).digest('hex');

test('a wheel is read with what it requires and the digest that it has, once for all who ask at that time', async t => {
  const { server, read, nothingLeft } = await worldOf(t);
  server.answer = (_, response) => void response.end(bytes);
  const found = await Promise.all([read(lib), read(lib)]);
  for (const { metadata, ...wheel } of found) {
    assert.deepEqual(wheel, { ...lib, size: bytes.length, sha256 });
    assert.match(
      metadata,
      /^Metadata-Version: 2\.1\nName: lib\nVersion: 1\.0\nRequires-Dist: other>=2\n$/,
    );
  }
  assert.equal(server.requests.length, 1);
  await nothingLeft();
});

test('a file that is not the wheel of its name, or is out of reach, is refused, and none is kept', async t => {
  const { server, read, nothingLeft } = await worldOf(t);
  const closed = await startIndex(t, (_, response) => void response.end(bytes));
  const cases: readonly (readonly [string, typeof server.answer, RegExp])[] = [
    [
      'a page',
      (_, response) => void response.end('<html>Log in</html>'),
      /Cannot install lib-1\.0.*: the file at https:\/\/files\.test\/w\/lib/,
    ],
    [
      'another project',
      (_, response) => void response.end(wheelOf({ name: 'other' }).bytes),
      /the file at .*other/,
    ],
    [
      'another version',
      (_, response) => void response.end(wheelOf({ name: 'lib', version: '2.0' }).bytes),
      /the file at .*2\.0/,
    ],
    [
      'a zip file',
      (_, response) => void response.end(rawZip([{ name: 'a.txt', content: 'a' }])),
      /has no \.dist-info directory/,
    ],
    [
      'a path that leads out',
      (_, response) =>
        void response.end(wheelOf({ name: 'lib', members: [{ name: '../../etc/x' }] }).bytes),
      /the file at .*Name the address of a wheel/,
    ],
    [
      'a bomb',
      (_, response) =>
        void response.end(
          wheelOf({ name: 'lib', metadata: `X: ${'x'.repeat(20_000_000)}\n` }).bytes,
        ),
      /more than \d+ bytes/,
    ],
    [
      'a redirect to a closed address',
      (_, response) => void response.writeHead(302, { location: `${closed.origin}/x.whl` }).end(),
      /closed network address/,
    ],
    ['nothing', (_, response) => void response.writeHead(404).end(), /answered 404/],
  ];
  for (const [name, answer, message] of cases) {
    server.answer = answer;
    await assert.rejects(read(lib), { name: 'Fault', message }, name);
    await nothingLeft();
  }
  assert.deepEqual(closed.requests, []);
  server.answer = (_, response) => void response.end(bytes);
  const wrong = 'a'.repeat(64);
  await assert.rejects(read({ ...lib, sha256: wrong }), /SHA-256 [0-9a-f]{64} instead of a{64}/);
  await assert.rejects(
    read({ ...lib, url: `${closed.origin}/lib-1.0-py3-none-any.whl` }),
    /closed network address/,
  );
  assert.deepEqual(closed.requests, []);
  await nothingLeft();
});

test('users do not wait for slow hosts that callers without a login name', async t => {
  const { server, read, nothingLeft } = await worldOf(t);
  const stop = new AbortController();
  const slow = [...others, ...others].map((other, at) => ({
    ...lib,
    url: `${other}/slow/${at}/lib-1.0-py3-none-any.whl`,
  }));
  server.answer = ({ url = '' }, response) => {
    if (!url.includes('/slow/')) response.end(bytes);
  };
  const waiting = slow.map(wheel =>
    assert.rejects(read(wheel, { signal: stop.signal, isAnonymous: true }), /left/),
  );
  await eventually('some are asked', () => server.requests.length === 2);
  assert.equal((await read(lib)).sha256, sha256);
  stop.abort(new Error('the callers left'));
  await Promise.all(waiting);
  await nothingLeft();
});
