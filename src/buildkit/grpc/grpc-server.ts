import { once } from 'node:events';
import * as http2 from 'node:http2';
import type { Duplex } from 'node:stream';
import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { pathOf } from './channel.ts';

/** A call from the other side. */
export interface ServerCall<I, O> {
  /** Returns the values of a header, each as it was sent. */
  header(name: string): readonly string[];
  /**
   * Incoming messages. Leaving the loop early does not end the call. Throws a {@link GrpcError} if the call is lost.
   */
  readonly messages: AsyncIterable<I>;
  /** Settles when the call can send more. Rejects with a {@link GrpcError} if the call is lost. */
  send(message: O): Promise<void>;
  /** Aborted when the other side cancels the call or the connection is lost. */
  readonly signal: AbortSignal;
}

/** Answers one method. An error that it throws ends the call; a {@link GrpcError} sets the code. */
export interface Handler {
  readonly path: string;
  /** True if the bytes of a message are used before the next one is read: both may be in the same memory. */
  readonly reusesMemory?: boolean;
  handle(call: ServerCall<Buffer, Uint8Array>): Promise<void>;
}

/** Ends a call with a gRPC status code. */
export class GrpcError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** Returns a handler for a method with one request and one response. */
export function unaryHandler<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  respond: (request: MessageShape<I>) => Promise<MessageInitShape<O>>,
): Handler {
  return {
    path: pathOf(method),
    async handle(call) {
      for await (const bytes of call.messages) {
        const response = await respond(fromBinary(method.input, bytes));
        return call.send(toBinary(method.output, create(method.output, response)));
      }
    },
  };
}

/** Returns a handler for a method with two streams. The call succeeds when the returned promise resolves. */
export function streamHandler<I extends DescMessage, O extends DescMessage>(
  method: DescMethodBiDiStreaming<I, O>,
  handle: (call: ServerCall<MessageShape<I>, MessageInitShape<O>>) => Promise<void>,
): Handler {
  return {
    path: pathOf(method),
    handle: call =>
      handle({
        header: call.header,
        signal: call.signal,
        messages: decoded(method.input, call.messages),
        send: message => call.send(toBinary(method.output, create(method.output, message))),
      }),
  };
}

async function* decoded<T extends DescMessage>(
  schema: T,
  messages: AsyncIterable<Buffer>,
): AsyncGenerator<MessageShape<T>> {
  for await (const bytes of messages) yield fromBinary(schema, bytes);
}

const messageLimit = 16 * 1024 * 1024;
const windowBytes = 4 * 1024 * 1024;

/**
 * Serves gRPC on one open connection. The server of grpc-js does not fit: it accepts at most 128 headers, but a
 * .dockerignore arrives as one header for each line. It also joins the values of one header with a comma, and file
 * names may contain commas.
 */
export function serveGrpc(
  connection: Duplex,
  handlers: readonly Handler[],
): http2.ServerHttp2Session {
  const byPath = new Map(handlers.map(handler => [handler.path, handler]));
  const session = http2.performServerHandshake(connection, {
    maxHeaderListPairs: 1_000_000,
    // Accepts names that begin or end with a space.
    strictFieldWhitespaceValidation: false,
    maxSessionMemory: 1_000,
    settings: { initialWindowSize: windowBytes, maxHeaderListSize: 16 * 1024 * 1024 },
  });
  session.setLocalWindowSize(windowBytes);
  session.on('error', () => connection.destroy());
  session.on('close', () => connection.destroy());
  session.on(
    'stream',
    (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders, _flags, raw: string[]) =>
      // An error here comes from a stream that was destroyed in the meantime.
      serveCall(stream, byPath.get(headers[':path'] ?? ''), raw).catch(() => stream.destroy()),
  );
  return session;
}

// Made once: each call ends with it, and it records the stack.
const callEnded = new DOMException('This operation was aborted', 'AbortError');

async function serveCall(
  stream: http2.ServerHttp2Stream,
  handler: Handler | undefined,
  rawHeaders: readonly string[],
): Promise<void> {
  const aborter = new AbortController();
  stream.on('error', () => aborter.abort(callEnded));
  stream.on('close', () => aborter.abort(callEnded));
  let end: { code: number; message: string } = { code: status.OK, message: '' };
  stream.on('wantTrailers', () => {
    stream.sendTrailers({
      'grpc-status': String(end.code),
      ...(end.message === '' ? {} : { 'grpc-message': percentEncoded(end.message) }),
    });
  });
  stream.respond(
    { ':status': 200, 'content-type': 'application/grpc+proto' },
    { waitForTrailers: true },
  );
  try {
    if (!handler) throw new GrpcError(status.UNIMPLEMENTED, 'Unknown method');
    await handler.handle({
      header: name => valuesOf(rawHeaders, name),
      messages: incoming(stream, handler.reusesMemory ? createJoin() : joinCopied),
      send: message => write(stream, frameOf(message), aborter.signal),
      signal: aborter.signal,
    });
  } catch (error) {
    const code = error instanceof GrpcError ? error.code : status.INTERNAL;
    end = { code, message: error instanceof Error ? error.message : String(error) };
  }
  if (stream.destroyed) return;
  // Reads and drops the rest of the input, so that the stream closes.
  stream.resume();
  stream.end();
}

async function* incoming(stream: http2.ServerHttp2Stream, join: Join): AsyncGenerator<Buffer> {
  try {
    yield* messagesIn(stream.iterator({ destroyOnReturn: false }), messageLimit, join);
    // For Node, a stream that is aborted between two messages has simply ended.
    if (stream.aborted) throw new Error('the other side aborted it');
  } catch (error) {
    throw lostCall(error);
  }
}

async function write(
  stream: http2.ServerHttp2Stream,
  frame: Buffer,
  signal: AbortSignal,
): Promise<void> {
  try {
    signal.throwIfAborted();
    if (!stream.write(frame)) await once(stream, 'drain', { signal });
  } catch (error) {
    throw lostCall(error);
  }
}

/** Returns the error of a call that the other side ended. The handler is not at fault. */
function lostCall(cause: unknown): GrpcError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new GrpcError(status.CANCELLED, `The call ended early: ${why}`);
}

function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1] === name);
}

function percentEncoded(message: string): string {
  return message.replace(/[^\x20-\x24\x26-\x7e]+/gu, text =>
    [...Buffer.from(text)].map(byte => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  );
}

const prefixBytes = 5;

/** Returns the message in a frame of gRPC over HTTP/2: flag, length, bytes. Never compresses it. */
export function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame.writeUInt8(0, 0);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

/** Returns the parts as one buffer of so many bytes. */
export type Join = (parts: readonly Buffer[], bytes: number) => Buffer;

const joinCopied: Join = parts => Buffer.concat(parts);

/**
 * Returns a join that uses the same memory for each result. A layer of 80 MB would be as much garbage outside the heap,
 * for which V8 collects the whole heap two or three times.
 */
export function createJoin(): Join {
  let space = Buffer.alloc(0);
  return (parts, bytes) => {
    if (space.length < bytes) space = Buffer.allocUnsafeSlow(Math.ceil(1.5 * bytes));
    let at = 0;
    // The first part may be in the same memory, after the place where it will be.
    for (const part of parts) {
      space.set(part, at);
      at += part.length;
    }
    return space.subarray(0, bytes);
  };
}

/**
 * Yields the messages in a stream of bytes. Throws an `Error` for a message that is compressed, longer than the limit
 * (bytes) or truncated.
 */
export async function* messagesIn(
  chunks: AsyncIterable<Buffer>,
  limit: number,
  join: Join = joinCopied,
): AsyncGenerator<Buffer> {
  const waiting: Buffer[] = [];
  let bytes = 0;
  let wanted = prefixBytes;
  let isPrefix = true;
  for await (const chunk of chunks) {
    waiting.push(chunk);
    bytes += chunk.length;
    while (bytes >= wanted) {
      const all = waiting.length === 1 && waiting[0] ? waiting[0] : join(waiting, bytes);
      const part = all.subarray(0, wanted);
      const rest = all.subarray(wanted);
      waiting.length = 0;
      if (rest.length > 0) waiting.push(rest);
      bytes = rest.length;
      if (isPrefix) {
        if (part.readUInt8(0) !== 0)
          throw new Error('A message is compressed, which is not supported');
        wanted = part.readUInt32BE(1);
        if (wanted > limit) throw new Error(`A message of ${wanted} bytes is too long`);
        isPrefix = false;
      } else {
        yield part;
        wanted = prefixBytes;
        isPrefix = true;
      }
    }
  }
  if (bytes > 0 || !isPrefix) throw new Error('The stream ended within a message');
}
