/** The server of a session, with a plain HTTP/2 client. */
import assert from 'node:assert/strict';
import * as http2 from 'node:http2';
import { duplexPair } from 'node:stream';
import { suite, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import {
  createJoin,
  frameOf,
  GrpcError,
  type Handler,
  type Join,
  messagesIn,
  serveGrpc,
} from '../../src/buildkit/grpc/grpc-server.ts';
import { eventually } from '../world/eventually.ts';

interface GrpcResponse {
  readonly messages: string[];
  readonly code: number;
  readonly message: string;
}

interface Peer extends Disposable {
  call(path: string, headers: http2.OutgoingHttpHeaders, messages: string[]): Promise<GrpcResponse>;
  readonly client: http2.ClientHttp2Session;
  isClosed(): boolean;
}

function startPeer(...handlers: Handler[]): Peer {
  const [near, far] = duplexPair();
  const server = serveGrpc(far, handlers);
  // biome-ignore lint/suspicious/noExplicitAny: the option is left out of the types
  const unchecked: any = { maxHeaderListPairs: 100_000, strictFieldWhitespaceValidation: false };
  const client = http2.connect('http://localhost', { createConnection: () => near, ...unchecked });
  client.on('error', () => {});
  return {
    client,
    isClosed: () => server.closed && far.destroyed,
    async call(path, headers, messages) {
      const stream = client.request({ ':method': 'POST', ':path': path, ...headers });
      let trailers: http2.IncomingHttpHeaders = {};
      stream.on('trailers', received => {
        trailers = received;
      });
      for (const message of messages) stream.write(frameOf(Buffer.from(message)));
      stream.end();
      const responses: string[] = [];
      for await (const bytes of messagesIn(stream, 1e6)) responses.push(bytes.toString());
      const { 'grpc-status': code, 'grpc-message': message = '' } = trailers;
      return {
        messages: responses,
        code: Number(code),
        message: decodeURIComponent(String(message)),
      };
    },
    [Symbol.dispose]() {
      client.destroy();
      server.destroy();
    },
  };
}

const echo: Handler = {
  path: '/echo',
  async handle(call) {
    for await (const message of call.messages) await call.send(message);
  },
};
const headersOf: Handler = {
  path: '/headers',
  handle: call => call.send(Buffer.from(JSON.stringify(call.header('x-name')))),
};
const failing = (error: Error): Handler => ({ path: '/fail', handle: () => Promise.reject(error) });

suite('a session server', () => {
  test('echoes messages of any size', async () => {
    using peer = startPeer(echo);
    const messages = ['', 'a', 'b'.repeat(300_000), 'ü'];
    const response = await peer.call('/echo', {}, messages);
    assert.deepEqual(response, { messages, code: status.OK, message: '' });
  });

  test('returns the values of a header one by one, whatever their number and content', async () => {
    using peer = startPeer(headersOf);
    const names = ['a, b', 'ends, ', ' begins', '%20', ...Array.from({ length: 2000 }, String)];
    const response = await peer.call('/headers', { 'x-name': names, 'x-names': 'other' }, []);
    assert.deepEqual(JSON.parse(response.messages[0] ?? ''), names);
  });

  test('answers unknown methods', async () => {
    using peer = startPeer(echo);
    assert.equal((await peer.call('/none', {}, ['x'])).code, status.UNIMPLEMENTED);
  });

  test('reports errors with their codes', async () => {
    using known = startPeer(failing(new GrpcError(status.NOT_FOUND, 'no "ü" 100%\nhere')));
    const response = await known.call('/fail', {}, ['not read'.repeat(10_000)]);
    assert.deepEqual([response.code, response.message], [status.NOT_FOUND, 'no "ü" 100%\nhere']);
    using unknown = startPeer(failing(new Error('broken')));
    assert.equal((await unknown.call('/fail', {}, [])).code, status.INTERNAL);
  });

  test('a call that the other side cancels is aborted', async () => {
    let wasAborted = false;
    using peer = startPeer({
      path: '/wait',
      handle: call =>
        new Promise(resolve => {
          call.signal.addEventListener('abort', () => {
            wasAborted = true;
            resolve();
          });
        }),
    });
    const stream = peer.client.request({ ':method': 'POST', ':path': '/wait' });
    stream.on('error', () => {});
    stream.on('response', () => stream.close(http2.constants.NGHTTP2_CANCEL));
    await eventually('the call is aborted', () => wasAborted);
  });

  test('an aborted stream is not reported as an error of its reader', async () => {
    const ended = Promise.withResolvers<unknown>();
    using peer = startPeer({
      path: '/read',
      async handle(call) {
        try {
          for await (const message of call.messages) await call.send(message);
          ended.resolve(undefined);
        } catch (error) {
          ended.resolve(error);
        }
      },
    });
    const stream = peer.client.request({ ':method': 'POST', ':path': '/read' });
    stream.on('error', () => {});
    stream.write(frameOf(Buffer.from('first')));
    stream.on('data', () => stream.destroy());
    const error = await ended.promise;
    assert.ok(error instanceof GrpcError, String(error));
    assert.equal(error.code, status.CANCELLED);
  });

  test('a lost connection ends the server', async () => {
    using peer = startPeer(echo);
    await peer.call('/echo', {}, ['x']);
    peer.client.destroy();
    await eventually('the server is closed', () => peer.isClosed());
  });
});

suite('frames', () => {
  const collect = async (chunks: Buffer[], limit = 1000, join?: Join) => {
    const found: string[] = [];
    for await (const bytes of messagesIn(chunks.values() as never, limit, join)) {
      found.push(bytes.toString());
    }
    return found;
  };
  const both = Buffer.concat([
    frameOf(Buffer.from('one')),
    frameOf(Buffer.from('')),
    frameOf(Buffer.from('two')),
  ]);

  test('split at any position', async () => {
    const bytes = [...both].map(byte => Buffer.from([byte]));
    assert.deepEqual(await collect(bytes), ['one', '', 'two']);
    assert.deepEqual(await collect([both]), ['one', '', 'two']);
  });

  test('split at any position, in the same memory', async () => {
    const texts = ['a', 'bc'.repeat(100), '', 'd'.repeat(300), 'ef'];
    const bytes = Buffer.concat(texts.map(text => frameOf(Buffer.from(text))));
    for (const length of [1, 2, 7, 100, 203, 250, 1000]) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / length) }, (_, at) =>
        Buffer.from(bytes.subarray(at * length, (at + 1) * length)),
      );
      assert.deepEqual(await collect(chunks, 1000, createJoin()), texts, `${length}`);
    }
    const [one, two] = [createJoin(), Buffer.from('x')];
    assert.equal(one([two, two], 2).buffer, one([two, two], 2).buffer);
  });

  test('too long, compressed, or truncated', async () => {
    await assert.rejects(collect([both], 2), /too long/);
    await assert.rejects(collect([Buffer.from([1, 0, 0, 0, 0])]), /compressed/);
    await assert.rejects(collect([both.subarray(0, -1)]), /within a message/);
    await assert.rejects(collect([both.subarray(0, 3)]), /within a message/);
  });
});
