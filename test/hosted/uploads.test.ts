import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { assertRegistryFault } from '../faults/http-client.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { admin, administered, expect, Repository } from './push-client.ts';

let sluice: Sluice;
let repository: Repository;
const whole = pattern(3_000_000, 'uploads');

before(async () => {
  sluice = await startSluice({ config: administered });
  repository = new Repository(sluice, 'team/app');
});
after(async () => {
  await sluice.stop();
  const lines = sluice.output().split('\n');
  assert.deepEqual(
    lines.filter(line => line.includes('"level":"error"')),
    [],
    'a request that ends early is no error',
  );
});

/** Sends the head of a PATCH and the given number of bytes, and leaves the connection open. */
async function patchPartly(location: string, from: number, to: number): Promise<Socket> {
  const socket = connect(sluice.port, '127.0.0.1');
  socket.on('error', () => {});
  const head = [
    `PATCH ${location} HTTP/1.1`,
    'host: localhost',
    `authorization: ${admin.authorization}`,
    'content-type: application/octet-stream',
    `content-length: ${whole.length - from}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  socket.write(whole.subarray(from, to));
  await once(socket, 'connect');
  return socket;
}

/** Returns the number of received bytes, as the state of the upload reports it. */
async function received(location: string): Promise<number> {
  const state = expect(await repository.get(location), 204);
  assert.equal(state.headers.location, location);
  return Number(/^0-(\d+)$/.exec(String(state.headers.range))?.[1]) + 1;
}

// Not a multiple of the pieces that the server writes at once.
const part = 1_200_000;

/** Waits until all sent bytes are reported, while the request still hangs. */
function isInProgress(location: string): Promise<void> {
  return eventually('all of it is reported', async () => (await received(location)) === part);
}

test('a push continues after a lost connection', async () => {
  const location = await repository.begin();
  const socket = await patchPartly(location, 0, part);
  await isInProgress(location);
  socket.destroy();
  const range = { 'content-range': `${part}-${whole.length - 1}` };
  expect(await repository.send('PATCH', location, whole.subarray(part), range), 202);
  const digest = digestOf(whole);
  expect(await repository.send('PUT', `${location}?digest=${digest}`), 201);
  assertBytes((await repository.get(`blobs/${digest}`)).body, whole);
});

test('a new request takes over from one with a hanging connection', async () => {
  const location = await repository.begin();
  const hanging = await patchPartly(location, 0, part);
  const closed = once(hanging, 'close');
  await isInProgress(location);
  const all = whole.subarray(0, 10);
  // It must begin where the hanging one ended: the response says so, and the hanging one has ended.
  const early = await repository.send('PATCH', location, all, { 'content-range': '0-9' });
  const message = new RegExp(`${part} bytes`);
  assertRegistryFault(early, { status: 416, code: 'BLOB_UPLOAD_INVALID', message });
  assert.equal(early.headers.location, location);
  assert.equal(early.headers.range, `0-${part - 1}`);
  await closed;
  const rest = whole.subarray(part);
  const digest = digestOf(whole);
  expect(await repository.send('PUT', `${location}?digest=${digest}`, rest), 201);
  assertBytes((await repository.get(`blobs/${digest}`)).body, whole);
});

test('chunks of unusual sizes, with sha256 and sha512', async () => {
  for (const algorithm of ['sha256', 'sha512'] as const) {
    const location = await repository.begin();
    let at = 0;
    for (const size of [1, 65_537, 1_048_576, 0, 1_048_577]) {
      expect(await repository.send('PATCH', location, whole.subarray(at, at + size)), 202);
      at += size;
      assert.equal(await received(location), Math.max(1, at));
    }
    const digest = digestOf(whole, algorithm);
    const end = `${location}?digest=${digest}`;
    expect(await repository.send('PUT', end, whole.subarray(at)), 201);
    assertBytes((await repository.get(`blobs/${digest}`)).body, whole);
  }
});

test('an invalid chunk is reported, and the upload continues', async () => {
  const location = await repository.begin();
  const bytes = whole.subarray(0, 100);
  for (const [range, status] of [
    ['0-98', 400],
    ['1-100', 416],
    ['99-0', 400],
    ['nonsense', 400],
  ] as const) {
    const headers = { 'content-range': range };
    expect(await repository.send('PATCH', location, bytes, headers), status);
  }
  const headers = { 'content-range': 'bytes 0-99/100' };
  expect(await repository.send('PATCH', location, bytes, headers), 202);
  expect(await repository.send('PUT', `${location}?digest=sha256:abc`), 400);
  expect(await repository.send('PUT', location), 400);
  expect(await repository.send('PUT', `${location}?digest=${digestOf(bytes)}`), 201);
});

test('an ended upload, and one of another repository, are unknown', async () => {
  const unknown = { status: 404, code: 'BLOB_UPLOAD_UNKNOWN', message: /start the push/ };
  const location = await repository.begin();
  const elsewhere = location.replace('team/app', 'team/other');
  assertRegistryFault(await repository.get(elsewhere), unknown);
  expect(await repository.send('DELETE', location), 204);
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    assertRegistryFault(await repository.send(method, location), unknown);
  }
  const wrong = await repository.begin();
  const digest = digestOf('something else');
  const refused = await repository.send('PUT', `${wrong}?digest=${digest}`, whole);
  assertRegistryFault(refused, { status: 400, code: 'DIGEST_INVALID', message: /3000000 bytes/ });
  assertRegistryFault(await repository.get(wrong), unknown);
  expect(await repository.send('HEAD', `blobs/${digest}`), 404);
});

test('finished uploads leave nothing behind', async () => {
  const hanging = await patchPartly(await repository.begin(), 0, 100_000);
  const location = await repository.begin();
  expect(await repository.send('DELETE', location), 204);
  hanging.destroy();
  const monolithic = `blobs/uploads/?digest=${digestOf('other bytes')}`;
  expect(await repository.send('POST', monolithic, whole), 400);
  const left = await readdir(join(sluice.data, 'content/tmp'));
  assert.equal(left.length, 1, 'the upload that can be resumed');
});

test('an abandoned upload is removed', async () => {
  await using short = await startSluice({
    config: { ...administered, hosted: { uploadLife: '2s' } },
  });
  const own = new Repository(short, 'team/app');
  const location = await own.begin();
  assert.equal((await readdir(join(short.data, 'content/tmp'))).length, 1);
  await eventually('it has ended', async () => (await own.get(location)).status === 404);
  const kept = () => readdir(join(short.data, 'content/tmp'));
  await eventually('nothing is left', async () => (await kept()).length === 0);
});
