/** Bodies in chunked transfer coding. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { SlabPool } from '../../src/storage/content/file-source.ts';
import { bodyDecoder } from '../../src/upstream/wire/http1.ts';
import { WirePool } from '../../src/upstream/wire/pool.ts';
import { openWire } from '../../src/upstream/wire/wire.ts';
import { assertBytes } from '../world/assert-bytes.ts';

test('a chunked body is the same, wherever its reads are split', () => {
  const coded = Buffer.from(
    '1\r\nX\r\n00000000000a\r\n0123456789\r\nA;x=1\r\nabcdefghij\r\n0\r\na: b\r\n\r\n',
  );
  for (let split = 0; split <= coded.length; split += 1) {
    const decoder = bodyDecoder({ kind: 'chunked' });
    let text = '';
    for (const part of [coded.subarray(0, split), coded.subarray(split)]) {
      decoder.feed(part, piece => {
        text += Buffer.from(piece).toString();
      });
    }
    assert.equal(text, 'X0123456789abcdefghij', `split at ${split}`);
    assert.ok(decoder.done);
  }
  for (const size of ['000000000000a', '', 'g', '-1', '0x1']) {
    const decoder = bodyDecoder({ kind: 'chunked' });
    const feed = () => decoder.feed(Buffer.from(`${size}\r\n0123456789\r\n`), () => {});
    assert.throws(feed, /malformed chunked body: size/, size);
  }
});

test('tiny chunks of a chunked body arrive as few pieces', async t => {
  const size = 300_000;
  const bytes = Buffer.from(Array.from({ length: size }, (_, at) => at % 251));
  const coded = Buffer.concat(
    Array.from(bytes, byte => Buffer.from([0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a])),
  );
  // Some larger ones between them stay where they are.
  const large = Buffer.alloc(6000, 'large');
  const largeChunk = Buffer.concat([Buffer.from('1770\r\n'), large, Buffer.from('\r\n')]);
  const server = createServer(socket => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      socket.write(Buffer.concat([coded, largeChunk, coded, largeChunk]));
      socket.write('0\r\n\r\n');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const pool = new WirePool({ slabs: new SlabPool() });
  t.after(() => {
    pool.close();
    server.close();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  // Never reached, except in a failure.
  const timeouts = { connectMs: 20_000, headersMs: 20_000, idleMs: 20_000 };
  const { body } = await openWire({ url, headers: {}, timeouts }, pool);
  const pieces: Buffer[] = [];
  for (let chunk = await body.read(); chunk !== null; chunk = await body.read()) {
    pieces.push(Buffer.from(chunk.bytes));
    chunk.release();
  }
  assertBytes(Buffer.concat(pieces), Buffer.concat([bytes, large, bytes, large]));
  // A read of the connection brings some ten thousand chunks.
  assert.ok(pieces.length < 3000, `${pieces.length} pieces`);
});
