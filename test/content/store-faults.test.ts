/** Content in a bucket whose store slows down, answers something else, or loses its responses. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import { openBucket } from '../../src/storage/objects/bucket.ts';
import { openContentObjects } from '../../src/storage/objects/content-objects.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type StoreFault, startStoreRelay } from '../world/store-relay.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { ingested, rangeOf } from './content-suite.ts';

let store: ObjectStore;
const variables = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const;
const mebibyte = 1024 ** 2;

before(async () => {
  store = await startObjectStore();
  for (const name of variables) process.env[name] = store.env[name];
});
after(async () => {
  for (const name of variables) delete process.env[name];
  await store?.[Symbol.asyncDispose]();
});

async function openFaulty() {
  const name = await store.createBucket();
  const directory = await makeTempDir('faulty-store');
  const database = openDatabase(':memory:');
  const rows = createContentRowStore(database);
  const relay = await startStoreRelay(store.url);
  const open = async (): Promise<ContentStore> => {
    const bucket = await openBucket({
      ...{ address: `s3://${name}`, endpoint: relay.url },
      ...{ region: 'us-east-1', pathStyle: true },
    });
    const local = await openContentDirectory(directory.join('local'));
    return openContentObjects(bucket, { local, uses: rows, cacheBytes: 0 });
  };
  const content = await open();
  relay.taken();
  return {
    ...{ name, relay, content, rows },
    uploads: async () =>
      (await store.client.send(new ListMultipartUploadsCommand({ Bucket: name }))).Uploads ?? [],
    replace: (digest: Digest, bytes: Buffer) =>
      store.client.send(
        new PutObjectCommand({
          ...{ Bucket: name, Key: `blobs/${digest.replace(':', '/')}`, Body: bytes },
        }),
      ),
    async [Symbol.asyncDispose]() {
      await content.close();
      await database.end();
      await relay[Symbol.asyncDispose]();
      await directory.remove();
    },
  };
}

const slowDown: StoreFault = (req, res) => {
  req.resume().on('end', () => {
    res.writeHead(503, { 'content-type': 'application/xml' });
    res.end('<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>slower</Message></Error>');
  });
};
const isRead = (req: IncomingMessage) => req.method === 'GET' && req.headers.range !== undefined;

test('reads take turns on one connection', async () => {
  await using opened = await openFaulty();
  const digests: Digest[] = [];
  for (const size of [1, 1000, 700_000]) {
    digests.push(await ingested(opened.content, randomBytes(size)));
  }
  opened.relay.taken();
  for (let round = 0; round < 5; round += 1) {
    for (const digest of digests) {
      const size = (await opened.content.size(digest)) ?? 0;
      assert.equal((await rangeOf(opened.content, digest, 0, size - 1)).length, size);
      assert.equal((await rangeOf(opened.content, digest, size - 1, size - 1)).length, 1);
    }
  }
  const { connections, requests } = opened.relay.taken();
  assert.equal(requests.length, 30);
  // The end of a response may come after the next request.
  assert.ok(connections < 10, `${connections} connections`);
});

test('idle connections are closed, and none that a slow store uses', async () => {
  const name = await store.createBucket();
  await using relay = await startStoreRelay(store.url);
  const bucket = await openBucket({
    ...{ address: `s3://${name}`, endpoint: relay.url },
    ...{ region: 'us-east-1', pathStyle: true, idleMs: 50 },
  });
  try {
    const bytes = randomBytes(1000);
    await bucket.put('object', bytes);
    relay.fail(isRead, async (_req, res) => {
      await sleep(150);
      res.writeHead(206, { 'content-length': 1000, 'content-range': 'bytes 0-999/1000' });
      res.write(bytes.subarray(0, 500));
      await sleep(150);
      res.end(bytes.subarray(500));
    });
    const read = async () => {
      const body = await bucket.fetch('object', 0, 999, AbortSignal.timeout(60_000));
      return Buffer.concat(await body.toArray());
    };
    relay.taken();
    for (const received of await Promise.all(Array.from({ length: 10 }, read))) {
      assert.ok(received.equals(bytes));
    }
    const { connections, requests } = relay.taken();
    assert.equal(requests.length, 10);
    assert.ok(connections >= 9, `${connections} connections`);
    await eventually('idle connections are closed', async () => (await relay.countOpen()) === 0);
  } finally {
    bucket.close();
  }
});

test('a store that asks for fewer requests gets no storm of them', async () => {
  await using opened = await openFaulty();
  const digest = await ingested(opened.content, randomBytes(1000));
  opened.relay.taken();
  opened.relay.fail(isRead, slowDown);
  await assert.rejects(rangeOf(opened.content, digest, 0, 999), { kind: 'unavailable' });
  assert.equal(opened.relay.taken().requests.length, 4);
  opened.relay.heal();
  assert.equal((await rangeOf(opened.content, digest, 0, 999)).length, 1000);
});

test('no part is taken from an answer that ignores its range', async () => {
  await using opened = await openFaulty();
  const bytes = randomBytes(100_000);
  const digest = await ingested(opened.content, bytes);
  opened.relay.fail(isRead, (_req, res) => {
    res.writeHead(200, { 'content-length': bytes.length });
    res.end(bytes);
  });
  await assert.rejects(rangeOf(opened.content, digest, 50_000, 50_009), {
    kind: 'unavailable',
    message: /WrongRange/,
  });
  assert.ok((await rangeOf(opened.content, digest, 0, 9)).equals(bytes.subarray(0, 10)));
});

test('an upload that failed while the store was away is ended later, and those of others stay', async () => {
  await using opened = await openFaulty();
  const other = { Bucket: opened.name, Key: 'of/another/program' };
  await store.client.send(new CreateMultipartUploadCommand(other));
  const isFailing = ({ method, url = '' }: IncomingMessage) =>
    method === 'DELETE' || url.includes('partNumber=2');
  opened.relay.fail(isFailing, (req, res) => {
    req.resume().on('end', () => {
      res.writeHead(403, { 'content-type': 'application/xml' });
      res.end('<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>');
    });
  });
  await assert.rejects(ingested(opened.content, randomBytes(20 * mebibyte)), {
    kind: 'unavailable',
  });
  assert.equal((await opened.uploads()).length, 2);
  opened.relay.heal();
  assert.equal(await opened.content.endTransfers(Date.now() - 60_000), 0, 'it may go on');
  assert.equal(await opened.content.endTransfers(Number.POSITIVE_INFINITY), 1);
  assert.deepEqual(
    (await opened.uploads()).map(({ Key }) => Key),
    ['of/another/program'],
  );
});

test('a removal of many objects stops between two of them', async () => {
  await using opened = await openFaulty();
  const put = (Key: string) =>
    store.client.send(new PutObjectCommand({ Bucket: opened.name, Key, Body: 'bytes' }));
  const names = Array.from({ length: 30 }, (_, at) => `${at}`.padStart(2, '0'));
  for (const name of names) {
    const upload = { Bucket: opened.name, Key: `blobs/${name}` };
    await store.client.send(new CreateMultipartUploadCommand(upload));
    await put(`uploads/${name}/0-5`);
    await put(`damaged/${name}`);
  }
  const forever = Number.POSITIVE_INFINITY;
  const { content } = opened;
  for (const remove of [
    (signal: AbortSignal) => content.endTransfers(forever, signal),
    (signal: AbortSignal) => content.removeStrayDrafts(forever, [], signal),
    (signal: AbortSignal) => content.removeDamaged(forever, signal),
  ]) {
    const stopping = new AbortController();
    let removals = 0;
    opened.relay.fail(
      ({ method }) => method === 'DELETE',
      async (_req, res, pass) => {
        removals += 1;
        await pass();
        stopping.abort(new Error('the server stops'));
        res.writeHead(204).end();
      },
    );
    await assert.rejects(remove(stopping.signal), /the server stops/);
    assert.ok(removals > 0 && removals < names.length, `${removals} removals`);
    opened.relay.heal();
    const resumed = new AbortController();
    assert.equal(await remove(resumed.signal), names.length - removals);
  }
});

test('content that the store did not take can be committed again without its bytes', async () => {
  await using opened = await openFaulty();
  for (const size of [1000, 20 * mebibyte]) {
    const bytes = randomBytes(size);
    const ingest = await opened.content.ingest();
    await ingest.write(bytes);
    opened.relay.fail(({ method }) => method === 'PUT' || method === 'POST', slowDown);
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await assert.rejects(ingest.commit(), { kind: 'unavailable' });
    }
    assert.equal(await opened.content.size(digestOf(bytes)), undefined);
    opened.relay.heal();
    assert.equal(await ingest.commit(), digestOf(bytes));
    await ingest.abort();
    assert.ok((await rangeOf(opened.content, digestOf(bytes), 0, size - 1)).equals(bytes));
  }
});

test('an upload that is under way is not ended, whatever the clocks say', async () => {
  await using opened = await openFaulty();
  const held = Promise.withResolvers<() => void>();
  opened.relay.fail(
    ({ url = '' }) => url.includes('partNumber=3'),
    (req, res, pass) => {
      opened.relay.heal();
      held.resolve(() => {
        // The client sends the part again.
        void pass().then(() => res.destroy());
      });
      req.pause();
    },
  );
  const bytes = randomBytes(20 * mebibyte);
  const sending = ingested(opened.content, bytes);
  const goOn = await held.promise;
  assert.equal(await opened.content.endTransfers(Number.POSITIVE_INFINITY), 0);
  goOn();
  assert.equal(await sending, digestOf(bytes));
  assert.ok((await rangeOf(opened.content, digestOf(bytes), 0, bytes.length - 1)).equals(bytes));
});

test('an upload whose last answer is lost is acknowledged once the object is there', async () => {
  await using opened = await openFaulty();
  opened.relay.fail(
    ({ method, url = '' }) => method === 'POST' && url.includes('uploadId='),
    (_req, res, pass) => {
      opened.relay.heal();
      void pass().then(() => res.destroy());
    },
  );
  const bytes = randomBytes(9 * mebibyte);
  assert.equal(await ingested(opened.content, bytes), digestOf(bytes));
  assert.deepEqual(await opened.uploads(), []);
});

test('right bytes that arrive while damaged ones are set aside are not removed', async () => {
  await using opened = await openFaulty();
  const right = randomBytes(1000);
  const digest = digestOf(right);
  await opened.replace(digest, randomBytes(1000));
  assert.equal(await opened.content.claim(digest), true);
  // The copy of the damaged bytes takes longer than another process waits before it takes over.
  opened.relay.fail(
    req => req.headers['x-amz-copy-source'] !== undefined,
    async (_req, res, pass) => {
      opened.relay.heal();
      await pass();
      await opened.replace(digest, right);
      res.writeHead(200, { 'content-type': 'application/xml' });
      res.end('<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>');
    },
  );
  await assert.rejects(rangeOf(opened.content, digest, 0, 999), { name: 'DamagedContent' });
  assert.ok((await opened.content.read(digest))?.equals(right));
});
