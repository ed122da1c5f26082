import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { reasonPhrase } from '../../src/http/errors/error-responses.ts';
import { raw } from '../faults/http-client.ts';
import { codePoint } from '../world/code-points.ts';

const phraseOf = (message: string, headline?: string) =>
  reasonPhrase(new Fault('build-failed', message, headline === undefined ? {} : { headline }));

test('a reason phrase is one line of printable ASCII, for any message', () => {
  assert.equal(phraseOf('one\r\nSet-Cookie: a=b\n\n\ttwo'), 'one Set-Cookie: a=b two');
  assert.equal(phraseOf('caf\u00e9 \u001b[31m\u0000'), 'caf? ?[31m?');
  assert.equal(phraseOf('the whole story', 'in short'), 'in short');
  assert.equal(phraseOf(' \n '), 'Bad Request');
  assert.equal(phraseOf('A'.repeat(513)), `${'A'.repeat(509)}...`);
  assert.equal(phraseOf('A'.repeat(512)).length, 512);
  fc.assert(
    fc.property(fc.string({ unit: codePoint, maxLength: 3000 }), message => {
      assert.match(phraseOf(message), /^[!-~](?:[ -~]{0,510}[!-~])?$/);
    }),
  );
});

test('a reason phrase contains no container token', () => {
  const phrase = phraseOf('cannot pull ct/hmk36nh3ljsl3y2x3ux6x655s7qssviv/app');
  assert.equal(phrase, 'cannot pull ct/<token>/app');
});

test('a reason phrase cannot add a header', async () => {
  const server = createServer((_request, response) => {
    response.statusMessage = phraseOf('failed\r\nX-Injected: yes\r\n\r\nbody');
    response.writeHead(400, { 'content-length': '0', connection: 'close' }).end();
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const head = (await raw(port, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).split('\r\n');
    assert.equal(head[0], 'HTTP/1.1 400 failed X-Injected: yes body');
    assert.ok(!head.slice(1).some(line => line.startsWith('X-Injected')));
  } finally {
    server.close();
  }
});
