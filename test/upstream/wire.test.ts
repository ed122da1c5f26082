import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext, createServer as createTlsServer } from 'node:tls';
import { Fault } from '../../src/foundation/fault.ts';
import type { ByteSource } from '../../src/storage/content/byte-source.ts';
import { SlabPool } from '../../src/storage/content/file-source.ts';
import { WirePool } from '../../src/upstream/wire/pool.ts';
import { openWire, type WireRequest } from '../../src/upstream/wire/wire.ts';
import { largeSlabsPerBody } from '../../src/upstream/wire/wire-source.ts';
import { makeCertificates } from '../world/certificates.ts';
import { makeTempDir } from '../world/temp-dir.ts';

type Script = (socket: Socket, request: number, connection: number) => void;

interface Upstream {
  readonly url: URL;
  readonly sockets: Socket[];
  readonly pool: WirePool;
  readonly heads: string[];
  get(options?: Partial<WireRequest>): ReturnType<typeof openWire>;
}

// Never reached, except in a failure.
const timeouts = { connectMs: 20_000, headersMs: 20_000, idleMs: 20_000 };

/** A server with a script for each received request head. */
async function upstream(
  t: TestContext,
  script: Script,
  server: Server = createServer(),
): Promise<Upstream> {
  const sockets: Socket[] = [];
  const heads: string[] = [];
  const isSecure = server.listeners('secureConnection').length > 0 || 'setSecureContext' in server;
  server.on(isSecure ? 'secureConnection' : 'connection', (socket: Socket) => {
    sockets.push(socket);
    const connection = sockets.length;
    let text = '';
    socket.on('error', () => {});
    socket.on('data', data => {
      text += data.toString('latin1');
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        heads.push(text.slice(0, end));
        text = text.slice(end + 4);
        script(socket, heads.length, connection);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = new URL(`${isSecure ? 'https' : 'http'}://127.0.0.1:${port}/v2/a/blobs/x?y=z`);
  const pool = new WirePool({ slabs: new SlabPool() });
  t.after(() => {
    pool.close();
    for (const socket of sockets) socket.destroy();
    server.close();
    assert.equal(pool.slabs.lent, 0, 'a buffer was not given back');
  });
  const get: Upstream['get'] = options =>
    openWire({ url, headers: {}, timeouts, ...options }, pool);
  return { url, sockets, pool, heads, get };
}

async function readAll(body: ByteSource): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let chunk = await body.read(); chunk !== null; chunk = await body.read()) {
    parts.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
  return Buffer.concat(parts);
}

/** A body in which every four bytes encode their own position. */
function pattern(size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE(at, at);
  return bytes;
}

const withLength = (body: Buffer | string, fields = '') =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${fields}\r\n`),
    Buffer.from(body),
  ]);

const failsWith = (code: string) => (error: unknown) => {
  assert.equal((error as { code?: string }).code, code, String(error));
  return true;
};

test('a body with a length arrives complete, for any size of the pieces', async t => {
  const body = pattern(3_000_001);
  const { get, heads } = await upstream(t, async socket => {
    const reply = withLength(body, 'X-Twice: a\r\nx-twice: b\r\n');
    for (let at = 0; at < 200; at += 1) socket.write(reply.subarray(at, at + 1));
    await sleep(5);
    socket.write(reply.subarray(200));
  });
  const response = await get({ headers: { range: 'bytes=0-' } });
  assert.equal(response.contentLength, body.length);
  assert.equal(response.headers.get('x-twice'), 'a, b');
  assert.ok((await readAll(response.body)).equals(body));
  assert.match(heads[0] ?? '', /^GET \/v2\/a\/blobs\/x\?y=z HTTP\/1\.1\r\nhost: 127/);
  assert.match(heads[0] ?? '', /range: bytes=0-\r\naccept-encoding: identity$/);
});

test('a chunked body is decoded, with extensions and trailer, also one byte at a time', async t => {
  const text = '5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n';
  const { get, pool } = await upstream(t, async (socket, request) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    if (request === 1) socket.write(text);
    else for (const letter of text) await new Promise(done => socket.write(letter, done));
  });
  for (let round = 0; round < 2; round += 1) {
    assert.equal((await readAll((await get()).body)).toString(), 'hello world');
  }
  assert.equal(pool.idle, 1);
});

for (const [name, rest] of [
  ['a size that is none', 'zz\r\n'],
  ['a chunk longer than its size', '2\r\nabcd\r\n'],
  ['a size line without an end', 'a'.repeat(5000)],
] as const) {
  test(`malformed chunks fail the body, also in the packet of the head: ${name}`, async t => {
    const { get } = await upstream(t, socket => {
      socket.write(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${rest}`);
    });
    const { body } = await get();
    await assert.rejects(readAll(body), failsWith('protocol'));
  });
}

for (const [name, head] of [
  ['switching protocols', 'HTTP/1.1 101 Switching\r\n\r\n'],
  ['an endless head', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`],
  [
    'length and coding',
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
  ],
  ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n'],
  ['a bare line feed', 'HTTP/1.1 200 OK\ncontent-length: 0\n\n'],
  ['a folded field', 'HTTP/1.1 200 OK\r\nx: 1\r\n 2\r\n\r\n'],
  ['no HTTP', 'SSH-2.0-x\r\n\r\n'],
] as const) {
  test(`a head is refused: ${name}`, async t => {
    const { get } = await upstream(t, socket => void socket.write(head));
    await assert.rejects(get(), failsWith('protocol'));
  });
}

test('interim responses are skipped', async t => {
  const { get } = await upstream(t, socket => {
    socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: a\r\n\r\n');
    socket.write(withLength('final'));
  });
  const { status, headers, body } = await get();
  assert.deepEqual([status, headers.has('link')], [200, false]);
  assert.equal((await readAll(body)).toString(), 'final');
});

test('interim responses without an end are refused', async t => {
  const { get } = await upstream(t, socket => {
    socket.write('HTTP/1.1 103 Early\r\n\r\n'.repeat(101));
  });
  await assert.rejects(get(), failsWith('protocol'));
});

test('a field that would start another line is never sent', async t => {
  const { get, sockets } = await upstream(t, socket => void socket.write(withLength('')));
  for (const headers of [{ a: 'b\r\nhost: x' }, { 'a\r\nb': 'c' }, { host: 'x' }, { a: 'ż' }]) {
    await assert.rejects(
      get({ headers: headers as Record<string, string> }),
      failsWith('protocol'),
    );
  }
  assert.equal(sockets.length, 0);
});

test('an empty body ends at once, and its connection is reused', async t => {
  const { get, sockets } = await upstream(t, socket => void socket.write(withLength('')));
  for (let round = 0; round < 3; round += 1) {
    assert.equal(await (await get()).body.read(), null);
  }
  assert.equal(sockets.length, 1);
});

test('a connection is not reused after `close`, excess bytes, or an abandoned body', async t => {
  const responses = [
    withLength('a', 'connection: close\r\n'),
    Buffer.concat([withLength('b'), Buffer.from('more')]),
    withLength('c').subarray(0, -1),
    withLength('d'),
  ];
  const { get, sockets } = await upstream(t, (socket, request) => {
    socket.write(responses[request - 1] ?? '');
  });
  assert.equal((await readAll((await get()).body)).toString(), 'a');
  assert.equal((await readAll((await get()).body)).toString(), 'b');
  (await get()).body.destroy();
  assert.equal((await readAll((await get()).body)).toString(), 'd');
  assert.equal(sockets.length, 4);
});

test('a kept connection that died is replaced silently', async t => {
  const { get, sockets } = await upstream(t, (socket, request, connection) => {
    if (request === 2 && connection === 1) socket.resetAndDestroy();
    else socket.write(withLength(`r${request}`));
  });
  assert.equal((await readAll((await get()).body)).toString(), 'r1');
  assert.equal((await readAll((await get()).body)).toString(), 'r3');
  assert.equal(sockets.length, 2);
});

test('a body without length ends with the connection; one with a length is then short', async t => {
  const { get } = await upstream(t, (socket, request) => {
    socket.end(
      request === 1 ? 'HTTP/1.1 200 OK\r\n\r\nto the end' : withLength('cut off').subarray(0, -1),
    );
  });
  assert.equal((await readAll((await get()).body)).toString(), 'to the end');
  const { body } = await get();
  const first = await body.read();
  assert.equal(Buffer.from(first?.bytes ?? []).toString(), 'cut of');
  first?.release();
  await assert.rejects(body.read(), failsWith('short'));
});

test('a reset during the body fails it after the received bytes', async t => {
  const { get } = await upstream(t, async socket => {
    socket.write(withLength(pattern(100_000)).subarray(0, 50_000));
    await sleep(50);
    socket.resetAndDestroy();
  });
  await assert.rejects(readAll((await get()).body), failsWith('reset'));
});

test('no answer, no bytes and no listener are distinguished', async t => {
  const silent = await upstream(t, () => {});
  const impatient = { ...timeouts, headersMs: 100 };
  await assert.rejects(silent.get({ timeouts: impatient }), failsWith('timeout-headers'));
  const stuck = await upstream(t, socket => void socket.write(withLength('abc').subarray(0, -1)));
  const { body } = await stuck.get({ timeouts: { ...timeouts, idleMs: 100 } });
  await assert.rejects(readAll(body), failsWith('timeout-idle'));
  await once(stuck.sockets[0] as Socket, 'close');
  const closed = createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  const url = new URL(`http://127.0.0.1:${port}/`);
  await assert.rejects(
    openWire({ url, headers: {}, timeouts }, new WirePool()),
    failsWith('connect'),
  );
});

test('a request that gets no connection in time is refused, and the next one gets it', async t => {
  const response = withLength('abc');
  const { url, sockets } = await upstream(t, (socket, request) => {
    socket.write(request === 1 ? response.subarray(0, -1) : response);
  });
  const pool = new WirePool({ active: 1 });
  t.after(() => pool.close());
  const get = (options: Partial<WireRequest> = {}) =>
    openWire({ url, headers: {}, timeouts, ...options }, pool);
  const first = await get();
  await assert.rejects(get({ timeouts: { ...timeouts, headersMs: 20 } }), error => {
    assert.ok(error instanceof Fault);
    assert.equal(error.status, 503);
    assert.match(error.message, /^1 transfers from http:.* within 20 ms: .*upstream\.connections/);
    return true;
  });
  const leaving = new AbortController();
  const left = get({ signal: leaving.signal });
  const next = get();
  leaving.abort();
  await assert.rejects(left, failsWith('aborted'));
  sockets[0]?.write(response.subarray(-1));
  assert.equal((await readAll(first.body)).toString(), 'abc');
  assert.equal((await readAll((await next).body)).toString(), 'abc');
});

test('a slow body is not idle, and neither is a body that nobody reads for a while', async t => {
  const { get } = await upstream(t, async socket => {
    const response = withLength('drip drip drip');
    socket.write(response.subarray(0, -10));
    for (let left = 10; left > 0; left -= 1) {
      await sleep(250);
      socket.write(response.subarray(-left, left === 1 ? undefined : 1 - left));
    }
  });
  const { body } = await get({ timeouts: { ...timeouts, idleMs: 2000 } });
  await sleep(2200);
  assert.equal((await readAll(body)).toString(), 'drip drip drip');
});

test('while chunks are on loan nothing more is read, and their bytes stay', async t => {
  const body = pattern(64 * 1024 * 1024);
  let sent = 0;
  const { get, pool } = await upstream(t, async socket => {
    socket.write(withLength(body).subarray(0, -body.length));
    for (let at = 0; at < body.length; at += 65_536) {
      const isRoomy = socket.write(body.subarray(at, at + 65_536));
      sent = at;
      if (!isRoomy) await once(socket, 'drain');
    }
  });
  const response = await get({ timeouts: { ...timeouts, idleMs: 1000 } });
  const first = await response.body.read();
  const second = await response.body.read();
  const before = Buffer.from(first?.bytes ?? []);
  await sleep(1500);
  const stopped = sent;
  assert.ok(stopped < body.length / 2, `${stopped} bytes were accepted without a reader`);
  assert.ok(pool.slabs.lent <= largeSlabsPerBody, `${pool.slabs.lent} buffers`);
  second?.release();
  let read = before.length + (second?.bytes.length ?? 0);
  for (let chunk = await response.body.read(); chunk; chunk = await response.body.read()) {
    assert.equal(Buffer.compare(chunk.bytes, body.subarray(read, read + chunk.bytes.length)), 0);
    read += chunk.bytes.length;
    chunk.release();
  }
  assert.equal(read, body.length);
  assert.ok(before.equals(first?.bytes ?? new Uint8Array()), 'a lent buffer was written to');
  first?.release();
});

test('a reader or a signal that ends frees the connection at once', async t => {
  const { get, sockets } = await upstream(t, (socket, request) => {
    if (request > 1) socket.write(withLength(pattern(1000)).subarray(0, 500));
  });
  const first = new AbortController();
  setTimeout(() => first.abort(), 50);
  await assert.rejects(get({ signal: first.signal }), failsWith('aborted'));
  const second = new AbortController();
  const { body } = await get({ signal: second.signal });
  (await body.read())?.release();
  const pending = body.read();
  second.abort();
  await assert.rejects(pending, failsWith('aborted'));
  const third = await get();
  third.body.destroy(new Error('enough'));
  await assert.rejects(third.body.read(), /enough/);
  const began = performance.now();
  await Promise.all(sockets.map(socket => socket.closed || once(socket, 'close')));
  assert.ok(performance.now() - began < timeouts.idleMs / 2, 'no time-out was waited for');
  await assert.rejects(get({ signal: AbortSignal.abort() }), failsWith('aborted'));
});

test('TLS: a private authority is trusted only where it is configured', async t => {
  const { trust, key, cert } = await ownAuthority();
  const body = pattern(2_000_000);
  const server = createTlsServer({ key, cert });
  const { get, sockets } = await upstream(t, socket => void socket.write(withLength(body)), server);
  for (let round = 0; round < 2; round += 1) {
    assert.ok((await readAll((await get({ trust })).body)).equals(body));
  }
  assert.equal(sockets.length, 1, 'the connection is kept');
  await assert.rejects(get(), failsWith('tls'));
});

test('TLS: a connection whose body ended while it was paused answers the next request', async t => {
  const { trust, key, cert } = await ownAuthority();
  // TLS hands over what it has decrypted even after a pause: somewhere here that is a body's end.
  const sizes = Array.from({ length: 60 }, (_, step) => 900_000 + step * 4000);
  let responded = 0;
  const server = createTlsServer({ key, cert });
  const { get } = await upstream(
    t,
    socket => void socket.write(withLength(pattern(sizes[responded++] ?? 0))),
    server,
  );
  for (const size of sizes) {
    const { body } = await get({ trust });
    await sleep(5);
    assert.equal((await readAll(body)).length, size);
  }
});

/** A server's key and certificate, and the trust in the authority that signed it. */
async function ownAuthority() {
  await using directory = await makeTempDir('wire');
  const files = await makeCertificates(directory.path);
  const [key = '', cert = '', ca = ''] = await Promise.all(
    [files.key, files.certificate, files.authority].map(path => readFile(path, 'utf8')),
  );
  return { trust: createSecureContext({ ca }), key, cert };
}
