/** The bytes of a PUT: sent without a copy, and given back however the request ends. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { ByteSource, Chunk } from '../../src/storage/content/byte-source.ts';
import { SlabPool } from '../../src/storage/content/file-source.ts';
import { WirePool } from '../../src/upstream/wire/pool.ts';
import { openWire, type WireRequest } from '../../src/upstream/wire/wire.ts';
import { eventually } from '../world/eventually.ts';

// Never reached, except in a failure.
const timeouts = { connectMs: 20_000, headersMs: 20_000, idleMs: 20_000 };
const chunkBytes = 300_000;

/** A source that overwrites each chunk as soon as it is given back. */
class LentSource implements ByteSource {
  readonly #chunks: number;
  readonly hash = createHash('sha256');
  /** Chunks on loan, and the most of them at once. */
  lent = 0;
  most = 0;
  made = 0;
  isDestroyed = false;
  /** Fails after all chunks. */
  failure: Error | undefined;
  /** Never ends, and gives nothing any more. */
  isStuck = false;

  constructor(chunks: number) {
    this.#chunks = chunks;
  }

  async read(): Promise<Chunk | null> {
    if (this.isDestroyed) throw new Error('read after the end');
    if (this.made === this.#chunks) {
      if (this.failure) throw this.failure;
      if (this.isStuck) await Promise.withResolvers<never>().promise;
      return null;
    }
    this.made += 1;
    const bytes = Buffer.alloc(chunkBytes, this.made);
    this.hash.update(bytes);
    this.lent += 1;
    this.most = Math.max(this.most, this.lent);
    const release = () => {
      bytes.fill(0xff);
      this.lent -= 1;
    };
    return { bytes, release };
  }

  destroy(): void {
    this.isDestroyed = true;
  }
}

async function upstream(t: TestContext, handler: RequestListener) {
  const server = createServer(handler);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/upload?digest=x`);
  const pool = new WirePool({ slabs: new SlabPool() });
  t.after(() => {
    pool.close();
    server.closeAllConnections();
    server.close();
    assert.equal(pool.slabs.lent, 0, 'a buffer was not given back');
  });
  const put = async (source: LentSource, size: number, options: Partial<WireRequest> = {}) => {
    const upload = { source, size };
    const response = await openWire({ url, headers: {}, timeouts, upload, ...options }, pool);
    while ((await response.body.read())?.release()) {}
    return response;
  };
  return { put, pool };
}

test('an upload arrives complete, holds two chunks at most, and keeps its connection', async t => {
  const seen: { readonly method: string | undefined; readonly digest: string }[] = [];
  const ports = new Set<number | undefined>();
  const { put } = await upstream(t, async (request, response) => {
    ports.add(request.socket.remotePort);
    const hash = createHash('sha256');
    for await (const bytes of request) hash.update(bytes as Buffer);
    assert.equal(request.headers['transfer-encoding'], undefined);
    seen.push({ method: request.method, digest: hash.digest('hex') });
    response.writeHead(201, { 'content-length': 0 }).end();
  });
  for (const chunks of [40, 0, 1]) {
    const source = new LentSource(chunks);
    const { status } = await put(source, chunks * chunkBytes);
    assert.equal(status, 201);
    assert.deepEqual(seen.pop(), { method: 'PUT', digest: source.hash.digest('hex') });
    assert.ok(source.most <= 2, `${source.most} chunks at once`);
    assert.equal(source.lent, 0);
  }
  assert.equal(ports.size, 1);
});

test('a response that comes early ends the upload, and its connection is not used again', async t => {
  const ports: (number | undefined)[] = [];
  const { put, pool } = await upstream(t, (request, response) => {
    ports.push(request.socket.remotePort);
    response.writeHead(413, { 'content-length': 4 }).end('full');
  });
  for (let round = 0; round < 2; round += 1) {
    const source = new LentSource(1);
    source.isStuck = true;
    const { status } = await put(source, 100 * chunkBytes);
    assert.equal(status, 413);
    assert.ok(source.isDestroyed);
    await eventually('the chunks', () => source.lent === 0);
  }
  assert.equal(new Set(ports).size, 2);
  assert.equal(pool.idle, 0);
});

test('a source that fails, or has another size, rejects the request with the reason', async t => {
  const bodies: number[] = [];
  const { put, pool } = await upstream(t, async request => {
    let size = 0;
    try {
      for await (const bytes of request) size += (bytes as Buffer).length;
    } catch {
      bodies.push(size);
    }
  });
  const broken = new LentSource(2);
  broken.failure = new Error('the disk is gone');
  await assert.rejects(put(broken, 5 * chunkBytes), broken.failure);
  await assert.rejects(put(new LentSource(2), 5 * chunkBytes), { code: 'short' });
  const long = new LentSource(9);
  await assert.rejects(put(long, chunkBytes + 1), { code: 'short' });
  assert.equal(long.made, 2);
  await eventually('the chunks', () => long.lent === 0);
  assert.equal(pool.idle, 0);
});

test('an upstream that takes nothing, or goes away, ends the upload', async t => {
  let isGone = false;
  const { put } = await upstream(t, request => {
    if (isGone) request.socket.resetAndDestroy();
    else request.pause();
  });
  const stuck = new LentSource(1000);
  const short = { ...timeouts, headersMs: 200 };
  await assert.rejects(put(stuck, 1000 * chunkBytes, { timeouts: short }), {
    code: 'timeout-idle',
  });
  await eventually('the chunks', () => stuck.lent === 0);
  isGone = true;
  const reset = new LentSource(1000);
  await assert.rejects(put(reset, 1000 * chunkBytes), { code: 'reset' });
  await eventually('the chunks', () => reset.lent === 0);
  assert.ok(reset.isDestroyed);
});

test('a caller that goes away ends the upload', async t => {
  const { put } = await upstream(t, request => void request.resume());
  const stop = new AbortController();
  const source = new LentSource(3);
  source.isStuck = true;
  const putting = put(source, 100 * chunkBytes, { signal: stop.signal });
  await eventually('the chunks', () => source.made === 3);
  stop.abort(new Error('gone'));
  await assert.rejects(putting, { code: 'aborted' });
  assert.ok(source.isDestroyed);
  await eventually('the chunks', () => source.lent === 0);
});
