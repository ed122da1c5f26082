import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { RelayError, type RelayOptions, relay } from '../../src/http/registry/blobs/relay.ts';
import { SlabPool } from '../../src/storage/content/file-source.ts';
import { WirePool } from '../../src/upstream/wire/pool.ts';
import { openWire } from '../../src/upstream/wire/wire.ts';
import { largeSlabsPerBody } from '../../src/upstream/wire/wire-source.ts';
import { eventually } from '../world/eventually.ts';

type Origin = (socket: Socket) => void | Promise<void>;

interface Relayed {
  readonly port: number;
  readonly slabs: SlabPool;
  /** The outcome of each transfer, in order: an error or `whole`. */
  readonly ends: (RelayError | 'whole')[];
  readonly originSockets: Socket[];
  ended(): Promise<RelayError | 'whole'>;
}

interface Promised {
  readonly length: number;
  readonly sha256?: string;
  readonly stallMs?: number;
  /** How long the upstream may be silent. */
  readonly idleMs?: number;
}

// Never reached, except in a failure.
const patienceMs = 20_000;

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** An origin that follows a script, and a server that relays it. */
async function relayed(t: TestContext, promised: Promised, origin: Origin): Promise<Relayed> {
  const originSockets: Socket[] = [];
  const upstream = createServer(socket => {
    originSockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', () => void origin(socket));
  });
  const slabs = new SlabPool();
  const pool = new WirePool({ slabs });
  const ends: (RelayError | 'whole')[] = [];
  const { length, sha256: hex, stallMs, idleMs = patienceMs } = promised;
  const server = createHttpServer(async (_request, response) => {
    const { port } = upstream.address() as AddressInfo;
    const { body } = await openWire(
      {
        url: new URL(`http://127.0.0.1:${port}/`),
        headers: {},
        timeouts: { connectMs: patienceMs, headersMs: patienceMs, idleMs },
      },
      pool,
    );
    response.writeHead(200, { 'content-length': length });
    const options: RelayOptions = {
      source: body,
      sink: response,
      length,
      ...(hex === undefined ? {} : { digest: { algorithm: 'sha256', hex } }),
      ...(stallMs === undefined ? {} : { stallMs }),
    };
    const end = await relay(options).then(
      () => 'whole' as const,
      error => error as RelayError,
    );
    ends.push(end);
    server.emit('ended', end);
  });
  for (const each of [upstream, server]) {
    each.listen(0, '127.0.0.1');
    await once(each, 'listening');
  }
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    for (const socket of originSockets) socket.destroy();
    upstream.close();
    pool.close();
    await eventually('every buffer is given back', () => slabs.lent === 0);
  });
  return {
    port: (server.address() as AddressInfo).port,
    slabs,
    ends,
    originSockets,
    ended: async () => ends[0] ?? ((await once(server, 'ended'))[0] as RelayError | 'whole'),
  };
}

const request = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';

/** A client whose connection may break at any time. */
function client(port: number, text = request): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(text);
  return socket;
}

/** The bytes of the body that a client gets before its connection ends or the body is whole. */
async function fetchBody(port: number, length: number): Promise<Buffer> {
  const socket = client(port);
  const parts: Buffer[] = [];
  let size = 0;
  let bodyAt = -1;
  try {
    for await (const part of socket as AsyncIterable<Buffer>) {
      parts.push(part);
      size += part.length;
      if (bodyAt < 0) bodyAt = Buffer.concat(parts).indexOf('\r\n\r\n') + 4;
      if (bodyAt >= 4 && size - bodyAt >= length) break;
    }
  } catch {
    // A reset is one of the ends.
  }
  socket.destroy();
  return bodyAt < 4 ? Buffer.alloc(0) : Buffer.concat(parts).subarray(bodyAt);
}

const respond = (length: number) => `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`;

function send(body: Buffer, claimed = body.length): Origin {
  return socket => {
    socket.write(respond(claimed));
    socket.write(body);
  };
}

function random(size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size; at += 1) bytes[at] = (at * 2_654_435_761) >>> 13;
  return bytes;
}

/** Waits until the sockets are closed, which must not take as long as a time-out. */
function allClosed(sockets: readonly Socket[]): Promise<void> {
  const areClosed = () => sockets.every(socket => socket.closed);
  return eventually('the connections are closed', areClosed, patienceMs / 2);
}

/** Sends a pattern as long as the other side reads it. Returns a counter of the read bytes. */
function endless(length: number): { origin: Origin; sent: () => number } {
  let sent = 0;
  const block = Buffer.alloc(65_536, 7);
  const origin: Origin = async socket => {
    socket.write(respond(length));
    while (sent < length && !socket.destroyed) {
      const isRoomy = socket.write(block.subarray(0, Math.min(block.length, length - sent)));
      sent += block.length;
      // A reset rejects the wait and ends the loop.
      if (!isRoomy) await once(socket, 'drain').catch(() => {});
    }
  };
  return { origin, sent: () => sent };
}

for (const size of [1, 1000, 70_000, 5_000_003]) {
  test(`${size} bytes arrive unchanged, hashed on the way`, async t => {
    const body = random(size);
    const { port, ended, ends } = await relayed(
      t,
      { length: size, sha256: sha256(body) },
      send(body),
    );
    assert.ok((await fetchBody(port, size)).equals(body));
    assert.equal(await ended(), 'whole');
    assert.ok((await fetchBody(port, size)).equals(body));
    await eventually('it has ended', () => ends.length === 2);
    assert.equal(ends[1], 'whole', 'a client that closes after the last byte has not left');
  });
}

test('an empty body is a body', async t => {
  const { port, ended } = await relayed(
    t,
    { length: 0, sha256: sha256(Buffer.alloc(0)) },
    send(Buffer.alloc(0)),
  );
  assert.equal((await fetchBody(port, 0)).length, 0);
  assert.equal(await ended(), 'whole');
});

for (const size of [1000, 5_000_003]) {
  for (const place of ['first', 'last']) {
    test(`one flipped bit, the ${place} of ${size} bytes: the client never gets the end`, async t => {
      const body = random(size);
      const hex = sha256(body);
      const at = place === 'first' ? 0 : size - 1;
      body[at] = (body[at] ?? 0) ^ 1;
      const { port, ended } = await relayed(t, { length: size, sha256: hex }, send(body));
      const got = await fetchBody(port, size);
      assert.ok(got.length < size, `${got.length} of ${size} bytes`);
      const end = await ended();
      assert.ok(end instanceof RelayError);
      assert.equal(end.code, 'digest');
    });
  }
}

test('without a digest the bytes are passed on unchanged', async t => {
  const body = random(100_000);
  const { port, ended } = await relayed(t, { length: body.length }, send(body));
  assert.ok((await fetchBody(port, body.length)).equals(body));
  assert.equal(await ended(), 'whole');
});

for (const [name, code, origin] of [
  ['ends short, in good order', 'upstream', send(random(300_000), 299_000)],
  [
    'closes before the end',
    'upstream',
    (socket: Socket) => void socket.end(respond(300_000) + 'x'.repeat(200_000)),
  ],
  [
    'resets in the middle',
    'upstream',
    async (socket: Socket) => {
      socket.write(respond(300_000) + 'x'.repeat(200_000));
      await sleep(30);
      socket.resetAndDestroy();
    },
  ],
  [
    'stalls',
    'upstream',
    (socket: Socket) => void socket.write(respond(300_000) + 'x'.repeat(200_000)),
  ],
  ['sends more than promised', 'length', send(random(300_001))],
  ['sends much more than promised', 'length', send(random(3_000_000))],
] as const) {
  test(`an upstream that ${name}: the client sees a broken answer`, async t => {
    const length = 300_000;
    const { port, ended } = await relayed(t, { length, idleMs: 1000 }, origin);
    const got = await fetchBody(port, length);
    assert.ok(got.length < length, `${got.length} bytes`);
    const end = await ended();
    assert.ok(end instanceof RelayError);
    assert.equal(end.code, code, end.message);
  });
}

test('a client that disconnects frees the upstream at once', async t => {
  const length = 1 << 30;
  const { origin } = endless(length);
  const { port, ended, originSockets } = await relayed(t, { length }, origin);
  const reader = client(port);
  await once(reader, 'data');
  reader.destroy();
  await allClosed(originSockets);
  const end = await ended();
  assert.ok(end instanceof RelayError);
  assert.equal(end.code, 'client-gone');
});

test('so does a client that disconnects while the upstream is silent', async t => {
  const { port, ended, originSockets } = await relayed(
    t,
    { length: 1000 },
    socket => void socket.write(`${respond(1000)}some`),
  );
  const reader = client(port);
  await once(reader, 'data');
  reader.destroy();
  await allClosed(originSockets);
  await ended();
});

test('a client that does not read stops the upstream; when it reads again, everything arrives', async t => {
  const length = 192 * 1024 * 1024;
  const { origin, sent } = endless(length);
  const { port, ended, slabs } = await relayed(t, { length }, origin);
  const reader = client(port).pause();
  let stopped = -1;
  await eventually('the upstream is not read any more', async () => {
    stopped = sent();
    await sleep(400);
    return stopped > 0 && sent() === stopped;
  });
  assert.ok(stopped < length / 2, `${stopped} bytes went nowhere`);
  const memory = process.memoryUsage().rss;
  await sleep(400);
  assert.equal(sent(), stopped, 'the upstream is still read');
  assert.ok(slabs.lent <= largeSlabsPerBody, `${slabs.lent} buffers`);
  assert.ok(process.memoryUsage().rss - memory < 8 * 1024 * 1024);
  let got = 0;
  reader.on('data', data => {
    got += data.length;
  });
  reader.resume();
  assert.equal(await ended(), 'whole');
  await eventually('all has come', () => got >= length);
  reader.destroy();
});

test('a client that never reads is disconnected', async t => {
  const length = 1 << 30;
  const { origin } = endless(length);
  const { port, ended } = await relayed(t, { length, stallMs: 200 }, origin);
  const reader = client(port).pause();
  const end = await ended();
  reader.destroy();
  assert.ok(end instanceof RelayError);
  assert.match(end.message, /read nothing/);
});

test('pipelined answers on one connection wait for each other; a disconnection frees all of them', async t => {
  const length = 1 << 30;
  const { origin } = endless(length);
  const { port, ends, slabs, originSockets } = await relayed(t, { length }, origin);
  const reader = client(port, request.repeat(3)).pause();
  await eventually('all of them are requested', () => originSockets.length === 3);
  await sleep(300);
  assert.ok(slabs.lent <= 3 * largeSlabsPerBody);
  reader.destroy();
  await eventually('all of them have ended', () => ends.length === 3);
  assert.ok(ends.every(end => end instanceof RelayError && end.code === 'client-gone'));
  await eventually('every buffer is given back', () => slabs.lent === 0);
});
