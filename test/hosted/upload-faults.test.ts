/** Uploads in chunks whose database, disk or clients fail at a bad moment. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import type { HostedBlobs } from '../../src/hosted/blobs.ts';
import type { UploadBody } from '../../src/hosted/uploads/open-uploads.ts';
import type { Quota } from '../../src/hosted/uploads/quota.ts';
import type { Reserved } from '../../src/hosted/uploads/reservations.ts';
import { createUploads } from '../../src/hosted/uploads/uploads.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { UploadRow } from '../../src/storage/rows/hosted/hosted-rows.ts';
import { eventually } from '../world/eventually.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const repository = 'team/app';
const chunk = Buffer.alloc(1_000_000, 'x');
const rangeFrom = (start: number) => ({ start, end: start + chunk.length - 1 });
const away = () => new Fault('unavailable', 'the database is away', { phase: 'store' });

function bodyOf(...parts: Buffer[]): UploadBody {
  const chunks = (async function* () {
    yield* parts;
  })();
  return { chunks, length: Buffer.concat(parts).length, stop() {} };
}

/** A body that stops coming after its first bytes. */
function hangingBody(): UploadBody {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  const chunks = (async function* () {
    yield chunk;
    await promise;
  })();
  return { chunks, length: undefined, stop: reject };
}

/** Uploads in a real directory, with rows in memory that can be away. */
function uploadsIn(content: ContentStore) {
  const rows = new Map<string, UploadRow>();
  const state = { isAway: false, isCurrent: true, others: undefined as Reserved | undefined };
  const respond = async <T>(work: () => T): Promise<T> => {
    if (state.isAway) throw away();
    return work();
  };
  const uploads = createUploads({
    content,
    kept: [],
    isCurrent: () => state.isCurrent,
    store: {
      keep: row => respond(() => void rows.set(row.id, row)),
      remove: id => respond(() => void rows.delete(id)),
      latest: () => respond(() => [...rows.values()]),
    },
    blobs: { link: async () => {} } as unknown as HostedBlobs,
    quota: {
      limitsOf: () => ({}),
      async admit(_repository: string, _bytes: number, others?: Reserved) {
        state.others = others;
        await respond(() => {});
      },
    } as unknown as Quota,
  });
  return { uploads, rows, state };
}

test('a moment without the database does not end an upload', async () => {
  await using directory = await makeTempDir('upload-faults');
  const content = await openContentDirectory(directory.path);
  const { uploads, state } = uploadsIn(content);
  const { id } = await uploads.start(repository, 'somebody');
  await uploads.append(repository, id, bodyOf(chunk), rangeFrom(0));
  const chunks = (async function* () {
    yield chunk;
    state.isAway = true;
    // More than is accepted between two checks of the quota.
    for (let at = 0; at < 6; at += 1) yield chunk;
  })();
  const body = { chunks, length: undefined, stop() {} };
  const range = { start: chunk.length, end: 8 * chunk.length - 1 };
  await assert.rejects(uploads.append(repository, id, body, range), /the database is away/);
  state.isAway = false;
  const { size } = await uploads.state(repository, id);
  assert.ok(size >= chunk.length);
  await uploads.append(repository, id, bodyOf(chunk), rangeFrom(size));
  const whole = Buffer.alloc(size + chunk.length, 'x');
  await uploads.finish(repository, id, bodyOf(), undefined, digestOf(whole));
  assert.equal(await content.size(digestOf(whole)), whole.length);
});

test('a failed write goes back to the last chunk that was acknowledged', async () => {
  await using directory = await makeTempDir('upload-faults');
  const real = await openContentDirectory(directory.path);
  let isFull = false;
  const ingest: ContentStore['ingest'] = async algorithm => {
    const one = await real.ingest(algorithm);
    const write: typeof one.write = async (...parts) => {
      if (!isFull) return one.write(...parts);
      // As a disk does that becomes full: it takes a part.
      await one.write(...parts.map(part => part.subarray(0, 10)));
      throw new Fault('storage-full', 'the disk is full', { phase: 'store' });
    };
    return Object.assign(Object.create(one), { write });
  };
  const { uploads } = uploadsIn({ ...real, ingest });
  const { id } = await uploads.start(repository, 'somebody');
  await uploads.append(repository, id, bodyOf(chunk), rangeFrom(0));
  isFull = true;
  const next = () => uploads.append(repository, id, bodyOf(chunk), rangeFrom(chunk.length));
  await assert.rejects(next(), /the disk is full/);
  isFull = false;
  assert.equal((await uploads.state(repository, id)).size, chunk.length);
  await next();
  const whole = Buffer.concat([chunk, chunk]);
  await uploads.finish(repository, id, bodyOf(), undefined, digestOf(whole));
  assert.deepEqual(await real.read(digestOf(whole)), whole);
});

test('an upload whose row cannot be removed leaves its bytes to the next server', async () => {
  await using directory = await makeTempDir('upload-faults');
  const content = await openContentDirectory(directory.path);
  const { uploads, rows, state } = uploadsIn(content);
  const { id } = await uploads.start(repository, 'somebody');
  await uploads.append(repository, id, bodyOf(chunk), rangeFrom(0));
  state.isAway = true;
  await uploads.expire(-1);
  assert.throws(() => uploads.find(repository, id), /start the push/);
  const row = rows.get(id);
  assert.ok(row);
  const resumed = await content.resume(row);
  assert.equal(resumed?.digest(), digestOf(chunk));
  await resumed?.abort();
});

test('a cancelled upload reserves nothing, although another request waits to continue it', async () => {
  await using directory = await makeTempDir('upload-faults');
  const content = await openContentDirectory(directory.path);
  const { uploads, state, rows } = uploadsIn(content);
  const { id } = await uploads.start(repository, 'somebody');
  const settle = (work: Promise<unknown>) => work.catch(error => error);
  const hanging = settle(uploads.append(repository, id, hangingBody(), undefined));
  await eventually('it hangs', async () => (await uploads.state(repository, id)).size > 0);
  const waiting = settle(
    uploads.append(repository, id, { ...hangingBody(), length: 5_000_000_000 }, undefined),
  );
  await uploads.cancel(repository, id);
  await Promise.all([hanging, waiting]);
  const other = await uploads.start(repository, 'somebody');
  await uploads.append(repository, other.id, bodyOf(chunk), undefined);
  assert.deepEqual(state.others, { inRepository: 0, inAnonymous: 0, inAll: 0 });
  await uploads.cancel(repository, other.id);
  assert.equal(rows.size, 0);
  assert.deepEqual(await readdir(directory.join('tmp')), []);
});

test('a server that may have lost its uploads to another one does not call them unknown', async () => {
  await using directory = await makeTempDir('upload-faults');
  const { uploads, state } = uploadsIn(await openContentDirectory(directory.path));
  assert.throws(() => uploads.find(repository, 'other'), /start the push of this blob again/);
  state.isCurrent = false;
  assert.throws(() => uploads.find(repository, 'other'), /try again in a moment/);
});

test('an upload has a limited number of chunks', async () => {
  await using directory = await makeTempDir('upload-faults');
  const content = await openContentDirectory(directory.path);
  const { uploads } = uploadsIn(content);
  const { id } = await uploads.start(repository, 'somebody');
  const upload = uploads.find(repository, id) as { keeps?: number };
  upload.keeps = 100_000;
  const next = uploads.append(repository, id, bodyOf(chunk), rangeFrom(0));
  await assert.rejects(next, /at most 100000 chunks: send larger ones/);
  await uploads.cancel(repository, id);
});
