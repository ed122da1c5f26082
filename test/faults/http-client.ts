import assert from 'node:assert/strict';
import {
  request as httpRequest,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http';
import { connect } from 'node:net';

/** A response as it came over the wire; `isWhole` is false when the connection broke before its end. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly isWhole: boolean;
  readonly ms: number;
}

export interface Call {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
  /** Ends the connection. */
  readonly signal?: AbortSignal;
}

/** Sends one request on a new connection, without redirects or decoding. */
export function call(
  url: string,
  { method = 'GET', headers = {}, body, signal }: Call = {},
): Promise<Reply> {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method, headers, signal, agent: false }, response => {
      const parts: Buffer[] = [];
      response.on('data', part => parts.push(part));
      response.on('error', () => {});
      response.on('close', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(parts),
          isWhole: response.complete,
          ms: performance.now() - began,
        }),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Sends the text as it is and returns all that comes back until the server closes or is silent. */
export function raw(port: number, text: string | Buffer, silenceMs = 30_000): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    const done = () => {
      socket.destroy();
      resolve(received);
    };
    socket.setTimeout(silenceMs, done);
    socket.on('data', data => {
      received += data.toString('latin1');
    });
    socket.on('end', done);
    socket.on('close', done);
    socket.on('error', error => (received === '' ? reject(error) : done()));
  });
}

export interface ExpectedFault {
  readonly status: number;
  readonly code: string;
  readonly message: RegExp;
}

/** Checks a response below `/v2`. Returns its id in the log. */
export function assertRegistryFault(reply: Reply, expected: ExpectedFault): string {
  const text = reply.body.toString('utf8');
  assert.equal(reply.status, expected.status, text);
  assert.ok(reply.isWhole, 'the answer is whole');
  assert.equal(reply.headers['content-type'], 'application/json');
  assert.equal(reply.headers['content-length'], String(reply.body.length));
  const { errors } = JSON.parse(text);
  assert.equal(errors.length, 1);
  assert.equal(errors[0].code, expected.code, text);
  assert.match(errors[0].message, expected.message);
  assert.equal(errors[0].detail.errorId, reply.headers['x-request-id']);
  return errors[0].detail.errorId;
}

/** The same for the JSON API. */
export function assertApiFault(reply: Reply, status: number, message: RegExp): string {
  const text = reply.body.toString('utf8');
  assert.equal(reply.status, status, text);
  const body = JSON.parse(text);
  assert.match(body.message, message);
  const id = / - Error ID: ([0-9a-f]{12})$/.exec(body.message)?.[1];
  assert.ok(id !== undefined, text);
  assert.equal(id, reply.headers['x-request-id']);
  return id;
}
