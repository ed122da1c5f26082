import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';
import {
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { openContentDirectory } from '../../src/storage/content/content-directory.ts';
import type { ContentStore } from '../../src/storage/content/content-store.ts';
import type { KeptDraft } from '../../src/storage/content/ingest.ts';
import { openBucket } from '../../src/storage/objects/bucket.ts';
import { openContentObjects } from '../../src/storage/objects/content-objects.ts';
import { createContentRowStore } from '../../src/storage/rows/content-rows.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { contentSuite, ingested, rangeOf } from './content-suite.ts';

let store: ObjectStore;
const variables = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const;
const prefix = 'some/where';

before(async () => {
  store = await startObjectStore();
  for (const name of variables) process.env[name] = store.env[name];
});
after(async () => {
  for (const name of variables) delete process.env[name];
  await store?.[Symbol.asyncDispose]();
});

const keyOf = (digest: Digest) => `${prefix}/blobs/${digest.replace(':', '/')}`;

async function openNew({ cacheBytes = 1024 ** 3 } = {}) {
  const name = await store.createBucket();
  const directory = await makeTempDir('copies');
  const database = openDatabase(':memory:');
  const rows = createContentRowStore(database);
  const damaged: Digest[] = [];
  const open = async (folder: string, endpoint = store.url): Promise<ContentStore> => {
    const bucket = await openBucket({
      ...{ address: `s3://${name}/${prefix}`, endpoint },
      ...{ region: 'us-east-1', pathStyle: true },
    });
    const local = await openContentDirectory(directory.join(folder));
    const onDamaged = (digest: Digest) => void damaged.push(digest);
    return openContentObjects(bucket, { local, uses: rows, cacheBytes, onDamaged });
  };
  const content = await open('first');
  const others: ContentStore[] = [];
  return {
    ...{ name, directory, content, rows, damaged, open },
    put: (digest: Digest, bytes: Buffer) =>
      store.client.send(new PutObjectCommand({ Bucket: name, Key: keyOf(digest), Body: bytes })),
    async restart(kept: readonly KeptDraft[]) {
      const again = await open(`restarted-${others.length}`);
      others.push(again);
      await again.removeLeftovers(Number.POSITIVE_INFINITY, kept);
      return again;
    },
    async lose(digest: Digest) {
      await store.client.send(new DeleteObjectCommand({ Bucket: name, Key: keyOf(digest) }));
    },
    uploads: async () =>
      (await store.client.send(new ListMultipartUploadsCommand({ Bucket: name }))).Uploads ?? [],
    async keys() {
      const { Contents = [] } = await store.client.send(new ListObjectsV2Command({ Bucket: name }));
      return Contents.map(({ Key = '' }) => Key);
    },
    async [Symbol.asyncDispose]() {
      assert.deepEqual(await readdir(directory.join('first/tmp')), [], 'no temporary file is left');
      for (const opened of [content, ...others]) await opened.close();
      await database.end();
      await directory.remove();
    },
  };
}

contentSuite('a bucket', async () => {
  const opened = await openNew();
  return {
    ...opened,
    leaveWithoutRow: async bytes => void (await opened.put(digestOf(bytes), bytes)),
  };
});

suite('content in a bucket', () => {
  test('large content is sent in parts, and is read from the bucket by another machine', async () => {
    await using opened = await openNew();
    const bytes = randomBytes(20 * 1024 ** 2 + 17);
    const digest = await ingested(opened.content, bytes);
    assert.deepEqual(await opened.uploads(), []);
    const other = await opened.open('second');
    assert.equal(await other.size(digest), bytes.length);
    assert.ok((await rangeOf(other, digest, 0, bytes.length - 1)).equals(bytes));
    const [start, end] = [9_000_000, 18_000_000];
    assert.ok((await rangeOf(other, digest, start, end)).equals(bytes.subarray(start, end + 1)));
    assert.deepEqual(await readdir(opened.directory.join('second')), ['tmp']);
    await using file = await other.lease(digest);
    assert.ok(file?.path.startsWith(opened.directory.join('second')));
    await other.close();
  });

  test('damaged content is never read to its end, and is set aside', async () => {
    await using opened = await openNew();
    for (const size of [100, 3_000_000]) {
      const right = randomBytes(size);
      const digest = digestOf(right);
      const wrong = Buffer.from(right);
      wrong[0] = (wrong[0] ?? 0) ^ 1;
      await opened.put(digest, wrong);
      assert.equal(await opened.content.claim(digest), true);
      await assert.rejects(rangeOf(opened.content, digest, 0, size - 1), {
        name: 'DamagedContent',
      });
      assert.equal(await opened.content.size(digest), undefined);
      assert.equal(await opened.content.claim(digest), false);
      assert.equal(await ingested(opened.content, right), digest);
      assert.ok((await opened.content.read(digest))?.equals(right));
    }
    assert.equal(opened.damaged.length, 2);
    const isAside = (key: string) => key.startsWith(`${prefix}/damaged/`);
    assert.equal((await opened.keys()).filter(isAside).length, 2);
    assert.equal(await opened.content.removeDamaged(Date.now() - 60_000), 0);
    assert.equal(await opened.content.removeDamaged(Number.POSITIVE_INFINITY), 2);
    assert.equal((await opened.keys()).filter(isAside).length, 0);
  });

  test('a damaged document counts as absent, and no program gets damaged content', async () => {
    await using opened = await openNew();
    const digest = digestOf('{"a":1}');
    await opened.put(digest, Buffer.from('{"a":2}'));
    assert.equal(await opened.content.read(digest), undefined);
    assert.equal(await opened.content.size(digest), undefined);
    await opened.put(digest, Buffer.from('{"a":2}'));
    assert.equal(await opened.content.lease(digest), undefined);
    assert.equal(opened.damaged.length, 2);
  });

  test('uploads that nobody ended are ended', async () => {
    await using opened = await openNew();
    const begin = { Bucket: opened.name, Key: keyOf(digestOf('never')) };
    await store.client.send(new CreateMultipartUploadCommand(begin));
    assert.equal(await opened.content.removeLeftovers(Date.now() - 60_000), 0, 'it may go on');
    assert.equal((await opened.uploads()).length, 1);
    assert.equal(await opened.content.removeLeftovers(Number.POSITIVE_INFINITY), 1);
    assert.deepEqual(await opened.uploads(), []);
  });

  test('copies on this machine stay within their limit', async () => {
    await using opened = await openNew({ cacheBytes: 2500 });
    const digests: Digest[] = [];
    for (let at = 0; at < 5; at += 1)
      digests.push(await ingested(opened.content, randomBytes(1000)));
    const folders = await readdir(opened.directory.join('first/blobs/sha256'), { recursive: true });
    assert.equal(folders.filter(name => name.includes('/')).length, 2);
    for (const digest of digests) {
      assert.equal((await rangeOf(opened.content, digest, 0, 999)).length, 1000);
    }
  });

  test('a copy that is read stays longer than one that is not', async () => {
    await using opened = await openNew({ cacheBytes: 2500 });
    const [read, other] = [
      await ingested(opened.content, randomBytes(1000)),
      await ingested(opened.content, randomBytes(1000)),
    ];
    await rangeOf(opened.content, read, 0, 999);
    const last = await ingested(opened.content, randomBytes(1000));
    const names = await readdir(opened.directory.join('first/blobs/sha256'), { recursive: true });
    const isCopied = (digest: Digest) => names.some(name => name.endsWith(digest.slice(7)));
    assert.deepEqual([read, other, last].map(isCopied), [true, false, true]);
  });

  test('lists everything once from any position', async () => {
    await using opened = await openNew();
    const digests: Digest[] = [];
    for (let at = 0; at < 8; at += 1) {
      const bytes = randomBytes(8);
      digests.push(digestOf(bytes));
      await opened.content.write(digestOf(bytes), bytes);
    }
    for (const begin of [0, 0.3, 0.99]) {
      const listed: Digest[] = [];
      for await (const { digest } of opened.content.list(begin)) listed.push(digest);
      assert.deepEqual(listed.sort(), digests.sort());
    }
  });

  test('an answer that breaks off is continued where it ended, or fails', async () => {
    await using opened = await openNew();
    const bytes = randomBytes(3_000_000);
    const digest = await ingested(opened.content, bytes);
    await using cutter = await startCutter();
    const other = await opened.open('second', cutter.url);
    assert.equal(await other.size(digest), bytes.length);
    cutter.cutAfter(1_000_000);
    assert.ok((await rangeOf(other, digest, 0, bytes.length - 1)).equals(bytes));
    assert.ok(cutter.cuts() > 1);
    const again = await opened.open('third', cutter.url);
    assert.equal(await again.size(digest), bytes.length);
    cutter.cutAfter(0);
    await assert.rejects(rangeOf(again, digest, 0, bytes.length - 1), { kind: 'unavailable' });
    await other.close();
    await again.close();
  });

  test('an endpoint needs no region', async () => {
    const address = `s3://${await store.createBucket()}/${prefix}`;
    const bucket = await openBucket({ address, endpoint: store.url, pathStyle: true });
    await bucket.put('key', Buffer.from('bytes'));
    assert.match((await bucket.link('key', 60)).search, /us-east-1/);
    bucket.close();
  });

  test('a start without the bucket or with wrong credentials names the setting', async () => {
    const place = { endpoint: store.url, region: 'us-east-1', pathStyle: true };
    await assert.rejects(openBucket({ ...place, address: 's3://no-such-bucket' }), {
      kind: 'internal',
      message: /bucket in SLUICE_CONTENT does not exist.*NoSuchBucket/,
    });
    const address = `s3://${await store.createBucket()}`;
    process.env.AWS_SECRET_ACCESS_KEY = 'wrong';
    try {
      await assert.rejects(openBucket({ ...place, address }), {
        kind: 'internal',
        message: /rejects the credentials.*AWS_SECRET_ACCESS_KEY/,
      });
    } finally {
      process.env.AWS_SECRET_ACCESS_KEY = store.env.AWS_SECRET_ACCESS_KEY;
    }
  });

  test('while the store is away, calls fail with 503, and work again afterwards', async () => {
    await using opened = await openNew();
    const bytes = randomBytes(1000);
    const digest = await ingested(opened.content, bytes);
    const other = await opened.open('second');
    await store.kill();
    const away = { kind: 'unavailable', phase: 'store' };
    await assert.rejects(other.size(digest), away);
    await assert.rejects(other.read(digest), away);
    await assert.rejects(rangeOf(other, digest, 0, 999), away);
    await assert.rejects(ingested(other, Buffer.from('not acknowledged')), away);
    await store.start();
    assert.ok((await rangeOf(other, digest, 0, 999)).equals(bytes));
    assert.equal(await ingested(other, Buffer.from('sent')), digestOf('sent'));
    await other.close();
  });
});

/** Passes connections on to the store, and cuts each after a number of bytes from it. */
async function startCutter() {
  const to = new URL(store.url);
  let limit = Number.POSITIVE_INFINITY;
  let cuts = 0;
  const sockets = new Set<Socket>();
  const server = createServer(client => {
    const upstream = connect(Number(to.port), to.hostname);
    let passed = 0;
    sockets.add(client).add(upstream);
    client.on('error', () => {}).on('close', () => upstream.destroy());
    upstream.on('error', () => {}).on('close', () => client.destroySoon());
    client.pipe(upstream);
    upstream.on('data', (bytes: Buffer) => {
      passed += bytes.length;
      if (passed <= limit) {
        client.write(bytes);
        return;
      }
      cuts += 1;
      upstream.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cuts: () => cuts,
    cutAfter(bytes: number) {
      limit = bytes;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}
