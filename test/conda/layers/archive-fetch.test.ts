/** Archives come from channels that break off, lie, drip or are down: a whole archive with its digest, or a clear error. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { CondaPackage } from '../../../src/conda/conda-package.ts';
import { createArchiveFetch } from '../../../src/conda/layers/archive-fetch.ts';
import { Fault } from '../../../src/foundation/fault.ts';
import { openContentDirectory } from '../../../src/storage/content/content-directory.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { accessTo } from '../solving/solver-world.ts';
import { usualLimits } from './layer-world.ts';

const bytes = randomBytes(400_000);
const sha256 = createHash('sha256').update(bytes).digest('hex');
const md5 = createHash('md5').update(bytes).digest('hex');
const never = new AbortController().signal;

/** Fetches from a server with given answers. */
async function worldOf(
  t: TestContext,
  respond: RequestListener,
  limits: Partial<typeof usualLimits> = {},
) {
  const directory = await makeTempDir('archive-fetch');
  const server = createServer(respond).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await directory.remove();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/channel`;
  const listed = { keys: [], url, mirrors: [], allowPrivateAddress: true };
  const content = await openContentDirectory(directory.path);
  const fetch = createArchiveFetch({
    channels: accessTo(t, [listed]),
    ...{ content, limits: { ...usualLimits, ...limits } },
  });
  const wanted: CondaPackage = {
    ...{ name: 'demo', version: '1', build: '0', buildNumber: 0, subdir: 'noarch', depends: [] },
    ...{ fileName: 'demo-1-0.conda', url: `${url}/noarch/demo-1-0.conda` },
    ...{ size: bytes.length, sha256 },
  };
  const scratch = async () => (await readdir(directory.join('tmp'))).length;
  return { fetch, wanted, scratch };
}

const whole: RequestListener = (_, response) => response.end(bytes);
const fails =
  (message: RegExp, kind: Fault['kind'] = 'bad-request') =>
  (error: unknown) => {
    assert.ok(error instanceof Fault, String(error));
    assert.match(error.message, message);
    assert.equal(error.kind, kind);
    return true;
  };

test('an archive is whole, and its file goes when it is no longer needed', async t => {
  const { fetch, wanted, scratch } = await worldOf(t, whole);
  for (const known of [{}, { sha256: undefined, md5 }, { sha256: undefined, size: undefined }]) {
    const archive = await fetch({ ...wanted, ...known }, never);
    assert.ok((await readFile(archive.path)).equals(bytes));
    assert.deepEqual([archive.size, archive.sha256], [bytes.length, sha256]);
    await archive[Symbol.asyncDispose]();
    assert.equal(await scratch(), 0);
  }
});

test('a download that breaks off goes on where it was', async t => {
  const ranges: (string | undefined)[] = [];
  const { fetch, wanted } = await worldOf(t, (request, response) => {
    ranges.push(request.headers.range);
    const from = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const head = { 'content-length': bytes.length - from, etag: '"one"' };
    const range = { 'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
    response.writeHead(from > 0 ? 206 : 200, from > 0 ? { ...head, ...range } : head);
    if (ranges.length > 2) response.end(bytes.subarray(from));
    else response.write(bytes.subarray(from, from + 100_000), () => response.destroy());
  });
  await using archive = await fetch(wanted, never);
  assert.ok((await readFile(archive.path)).equals(bytes));
  assert.deepEqual([ranges.length, ranges[0]], [3, undefined]);
});

test('a wrong, shortened or foreign archive is not used', async t => {
  const page = '<html>sign in</html>';
  const cases: [RequestListener, Partial<CondaPackage>, RegExp][] = [
    [
      (_, response) => response.end(page),
      {},
      /127\.0\.0\.1.* wrong archive for demo-1-0\.conda: 20 bytes/,
    ],
    [(_, response) => response.end(page), { size: undefined }, /SHA-256 .* instead of/],
    [whole, { sha256: undefined, md5: md5.replace(/./, 'x') }, /MD5/],
    [whole, { sha256: sha256.replace(/./, 'x') }, /SHA-256/],
    [(_, response) => response.writeHead(404).end(), {}, /answered 404/],
    [(_, response) => response.writeHead(503).end(), {}, /answered 503/],
    [(_, response) => response.destroy(), {}, /demo-1-0\.conda could not be fetched/],
  ];
  for (const [respond, change, message] of cases) {
    const { fetch, wanted, scratch } = await worldOf(t, respond);
    await assert.rejects(fetch({ ...wanted, ...change }, never), fails(message));
    assert.equal(await scratch(), 0, 'nothing half fetched stays');
  }
});

test('an archive above the limit is refused before it is fetched, or as soon as it shows', async t => {
  const endless: RequestListener = (_, response) => {
    const more = () => response.write(bytes, error => error || more());
    more();
  };
  const world = await worldOf(t, endless, { maxArchiveBytes: 1_000_000 });
  const unknown = { ...world.wanted, size: undefined, sha256: undefined };
  await assert.rejects(world.fetch(unknown, never), fails(/larger than the 1000000/, 'too-large'));
  await assert.rejects(
    world.fetch({ ...world.wanted, size: 2_000_000 }, never),
    fails(/conda\.packages\.maxArchiveBytes/, 'too-large'),
  );
  assert.equal(await world.scratch(), 0);
});

test('a channel that drips ends by the limits of time, and a caller can leave', async t => {
  const drip: RequestListener = (_, response) => {
    response.writeHead(200, { 'content-length': bytes.length });
    const timer = setInterval(() => response.write('x'), 5);
    response.on('close', () => clearInterval(timer));
  };
  const stalled = await worldOf(t, drip, { stallMs: 200 });
  await assert.rejects(stalled.fetch(stalled.wanted, never), fails(/it sends too slowly/));
  const slow = await worldOf(t, drip, { fetchTimeout: 200 });
  const slowly = fails(/takes longer than .* conda\.packages\.fetchTimeout/);
  await assert.rejects(slow.fetch(slow.wanted, never), slowly);
  const left = await worldOf(t, drip);
  const stop = AbortSignal.timeout(100);
  await assert.rejects(left.fetch(left.wanted, stop), /aborted due to timeout/);
  for (const world of [stalled, slow, left]) assert.equal(await world.scratch(), 0);
});
