import assert from 'node:assert/strict';
import { readdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Database from 'better-sqlite3';
import { digestOf } from '../../src/oci/digest.ts';
import { assertRegistryFault } from '../faults/http-client.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { administered, expect, Repository } from './push-client.ts';

const whole = pattern(3_000_000, 'continued');
const half = 1_700_000;
let directory: TempDir;
let sluice: Sluice;

before(async () => {
  directory = await makeTempDir('continued');
  await start();
});
after(async () => {
  await sluice?.stop();
  await directory?.remove();
});

async function start(hosted: object = {}): Promise<void> {
  sluice = await startSluice({
    config: { ...administered, hosted },
    data: directory.join('data'),
  });
}

const repository = () => new Repository(sluice, 'team/app');
const drafts = () => readdir(join(sluice.data, 'content/tmp'));
const rows = (): unknown[] => {
  const database = new Database(join(sluice.data, 'sluice.db'), { readonly: true });
  try {
    return database.prepare('SELECT id FROM uploads').all();
  } finally {
    database.close();
  }
};

/** Sends the bytes from one position to another as a chunk that says its range. */
async function sendChunk(location: string, from: number, to: number): Promise<void> {
  const range = { 'content-range': `${from}-${to - 1}` };
  expect(await repository().send('PATCH', location, whole.subarray(from, to), range), 202);
}

async function restart(how: 'kill' | 'stop', hosted?: object): Promise<void> {
  await sluice[how]();
  await start(hosted);
}

for (const how of ['kill', 'stop'] as const) {
  test(`an upload in chunks continues after a ${how} of the server`, async () => {
    const location = await repository().begin();
    await sendChunk(location, 0, 100_000);
    await sendChunk(location, 100_000, half);
    await restart(how);
    const state = expect(await repository().get(location), 204);
    assert.equal(state.headers.range, `0-${half - 1}`);
    const early = await repository().send('PATCH', location, Buffer.from('x'), {
      'content-range': '0-0',
    });
    assertRegistryFault(early, { status: 416, code: 'BLOB_UPLOAD_INVALID', message: /1700000/ });
    await sendChunk(location, half, 2_000_000);
    await restart(how);
    const digest = digestOf(whole);
    const end = `${location}?digest=${digest}`;
    expect(await repository().send('PUT', end, whole.subarray(2_000_000)), 201);
    assertBytes((await repository().get(`blobs/${digest}`)).body, whole);
    assert.deepEqual(rows(), []);
    assert.deepEqual(await drafts(), []);
    assertRegistryFault(await repository().get(location), unknown);
  });
}

const unknown = { status: 404, code: 'BLOB_UPLOAD_UNKNOWN', message: /start the push/ };

test('bytes that were not acknowledged are sent again', async () => {
  const location = await repository().begin();
  await sendChunk(location, 0, half);
  // Without its range, a client sends everything at once, and starts again when that fails.
  expect(await repository().send('PATCH', location, whole.subarray(half, half + 50)), 202);
  await restart('kill');
  assert.equal((await repository().get(location)).headers.range, `0-${half - 1}`);
  const end = `${location}?digest=${digestOf(whole)}`;
  expect(await repository().send('PUT', end, whole.subarray(half)), 201);
});

test('an upload without chunks ends with its server, and leaves nothing', async () => {
  const location = await repository().begin();
  expect(await repository().send('PATCH', location, whole.subarray(0, half)), 202);
  await restart('kill');
  assertRegistryFault(await repository().get(location), unknown);
  assert.deepEqual(await drafts(), []);
});

test('an upload of a former server can be cancelled, and refuses another digest', async () => {
  const [cancelled, wrong] = [await repository().begin(), await repository().begin()];
  for (const location of [cancelled, wrong]) await sendChunk(location, 0, half);
  await restart('kill');
  expect(await repository().send('DELETE', cancelled), 204);
  const other = digestOf('other');
  const refused = await repository().send('PUT', `${wrong}?digest=${other}`, whole.subarray(half));
  assertRegistryFault(refused, { status: 400, code: 'DIGEST_INVALID', message: /3000000 bytes/ });
  assert.deepEqual(rows(), []);
  assert.deepEqual(await drafts(), []);
});

test('an upload whose bytes are lost is unknown', async () => {
  const location = await repository().begin();
  await sendChunk(location, 0, half);
  await sluice.kill();
  const [draft = ''] = await drafts();
  await truncate(directory.join('data/content/tmp', draft), half - 1);
  await start();
  assertRegistryFault(await repository().send('PATCH', location, Buffer.from('x')), unknown);
  assert.deepEqual(rows(), []);
});

test('uploads of a former server count, and end when nobody continues them', async () => {
  const locations = [await repository().begin(), await repository().begin()];
  for (const location of locations) await sendChunk(location, 0, half);
  // What the uploads have received counts for the quota, although no request has continued them yet.
  await restart('kill', { maxRepositoryBytes: 8_000_000 });
  const large = await repository().pushBlob(pattern(2_000_000, 'large'));
  assert.equal(large.status, 403);
  await restart('kill', { uploadLife: '1s' });
  await eventually('the uploads end', async () => (await drafts()).length === 0);
  for (const location of locations) assertRegistryFault(await repository().get(location), unknown);
  await eventually('their rows end', async () => rows().length === 0);
});
