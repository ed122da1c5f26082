import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';

/** Returns a message of the server. Source: documentation of PostgreSQL, Message Formats. */
function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
}

const authenticated = message('R', Buffer.alloc(4));
const ready = message('Z', Buffer.from('I'));
const ended = message(
  'E',
  Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'),
);

test('a connection that ends while it begins is an outage, not an uncaught error', async () => {
  const server = createServer(socket => {
    socket.on('error', () => {});
    // All in one piece, as a process finds it that did not run for a while.
    socket.once('data', () => socket.end(Buffer.concat([authenticated, ready, ended])));
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(address && typeof address === 'object');
  try {
    await assert.rejects(
      openPostgres(`postgres://user@127.0.0.1:${address.port}/none`),
      /The database does not answer/,
    );
  } finally {
    server.close();
  }
});
