import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createGunzip } from 'node:zlib';
import { Fault } from '../../foundation/fault.ts';
import { type JsonShape, JsonShapeCheck, JsonShapeError } from '../../foundation/json-shape.ts';
import { type BodyShare, stateOf } from '../request-state.ts';

/** Bytes of an oversized body that the server reads and drops before it answers. */
const droppedBytes = 64 * 1024 * 1024;
const droppingMs = 5000;
/** Bytes that a client must send in time, or the rest of the body. */
const progressBytes = 64 * 1024;
const usualStallMs = 20_000;

/**
 * Returns the bytes of the body, or undefined when they are more than `limit`. Reads and drops up to 64 MiB of an
 * oversized body: otherwise the client would see a broken connection in place of the response.
 * Throws a {@link Fault}: 408 for a client that sends too slowly, 503 when bodies hold all their memory.
 * `inspect` sees the bytes as they arrive; its errors are thrown as well.
 */
export function readBody(
  request: IncomingMessage,
  limit: number,
  inspect: (part: Buffer) => void = () => {},
): Promise<Buffer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const { memory, stallMs = usualStallMs } = stateOf(request).bodyTerms ?? {};
  const parts: Buffer[] = [];
  let size = 0;
  let progress = 0;
  let timer: NodeJS.Timeout | undefined;
  const startTimer = () => {
    timer = setTimeout(() => fail(tooSlow(stallMs)), stallMs);
  };
  const stop = () => {
    clearTimeout(timer);
    request.off('data', onData).off('end', onEnd);
  };
  const forget = () => {
    parts.length = 0;
    memory?.close();
  };
  const fail = (error: unknown) => {
    stop();
    forget();
    reject(error);
  };
  const onData = (part: Buffer) => {
    size += part.length;
    progress += part.length;
    if (progress >= progressBytes) {
      progress = 0;
      timer?.refresh();
    }
    if (size > limit) {
      forget();
      if (size <= limit + droppedBytes) return;
      stop();
      resolve(undefined);
      return;
    }
    try {
      inspect(part);
    } catch (error) {
      // `dropBody` drops the rest before the response.
      fail(error);
      return;
    }
    parts.push(part);
    const room = memory?.add(part.length);
    if (!room) return;
    // Few bytes are here already. Read no more until there is memory; this wait does not count against the client.
    clearTimeout(timer);
    request.pause();
    room.then(() => {
      startTimer();
      request.resume();
    }, fail);
  };
  const onEnd = () => {
    stop();
    resolve(size > limit ? undefined : Buffer.concat(parts, size));
  };
  startTimer();
  request.on('data', onData).once('end', onEnd).once('error', fail).once('close', stop);
  return promise;
}

/**
 * Reads and drops the rest of a body, up to 64 MiB within 5 s: otherwise a client that still sends would see a broken
 * connection in place of the response. Resolves with false when more is left.
 */
export async function dropBody(request: IncomingMessage): Promise<boolean> {
  if (request.readableEnded || request.destroyed) return true;
  let size = 0;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), droppingMs);
  request.on('data', (part: Buffer) => {
    size += part.length;
    if (size > droppedBytes) resolve(false);
  });
  for (const event of ['end', 'close', 'error']) request.once(event, () => resolve(true));
  request.resume();
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}

function tooSlow(stallMs: number): Fault {
  return new Fault(
    'too-slow',
    `The body of the request stopped arriving: at least ${progressBytes / 1024} KiB are due every ${stallMs / 1000} s`,
    { phase: 'request' },
  );
}

// Twice the values of a request with every list at its limit (see `container-schema.ts`). The parser takes 10 ms for them.
// Some clients escape every slash in base64.
const usualShape: JsonShape = { maxValues: 20_000, maxDepth: 32, maxEscapes: 1_000_000 };

const largeBytes = 512 * 1024;
const partBytes = 64 * 1024;

/**
 * Returns the JSON value in a request's body, which may be packed with gzip. Throws a {@link Fault}: 413 beyond
 * `limit` bytes, packed or not; 415 for another content type or coding, or for no content type; 400 for malformed
 * JSON and for more than {@link usualShape} allows. The content type also stops pages of other sites: they can make a
 * browser send a form, text or a body without a type, but for JSON the browser sends a preflight request first.
 */
export async function readJsonBody(request: IncomingMessage, limit: number): Promise<unknown> {
  const type = request.headers['content-type'] ?? '';
  if (!/^application\/(?:[a-z.+-]+\+)?json\s*(?:;|$)/i.test(type)) {
    throw new Fault(
      'unsupported-media',
      'The body must be JSON: send Content-Type: application/json',
      {
        phase: 'request',
      },
    );
  }
  const body = await readShaped(request, limit);
  if (!body) {
    throw new Fault(
      'too-large',
      `The body is larger than the ${limit} bytes allowed: send layers by URL, and files for a build as 'buildContext', or ask the operator to raise limits.bodyBytes`,
      { phase: 'request', headers: { connection: 'close' } },
    );
  }
  if (body.length === 0) throw malformedBody('The body is empty: send a JSON object');
  // The decoder takes ten times as long for invalid UTF-8 as for valid UTF-8.
  if (!isUtf8(body)) throw malformedBody('The body is not valid JSON: it is not UTF-8');
  if (body.length < largeBytes) return parsedJson(body.toString('utf8'));
  // With an inline layer, each of these steps takes 10 ms. Other requests get their turn in between.
  await nextTurn();
  const text = body.toString('utf8');
  await nextTurn();
  const value = parsedJson(text);
  await nextTurn();
  return value;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // Omit the rest of the parser's message: it would show a part of the body in the log.
    const place = / \(line \d+ column \d+\)$/.exec((error as Error).message)?.[0] ?? '';
    throw malformedBody(
      `The body is not valid JSON${place}: check its quotes, commas and brackets`,
    );
  }
}

/** Reads and unpacks the body. Returns undefined when it is larger than the limit, packed or unpacked. */
async function readShaped(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  const shape = new JsonShapeCheck(usualShape);
  const inspect = (part: Buffer) => shape.add(part);
  const isPacked = isGzip(request);
  try {
    if (!isPacked) return await readBody(request, limit, inspect);
    const packed = await readBody(request, limit);
    return (
      packed && (await unpackedBody(packed, limit, inspect, stateOf(request).bodyTerms?.memory))
    );
  } catch (error) {
    if (!(error instanceof JsonShapeError)) throw error;
    throw malformedBody(`The body ${error.message}: send less in one request`);
  }
}

/** Returns true for gzip. Throws a {@link Fault} (415) for other codings. Source: RFC 9110, sections 8.4 and 12.5.3. */
function isGzip({ headers }: IncomingMessage): boolean {
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding === 'gzip' || coding === 'x-gzip') return true;
  if (coding === '' || coding === 'identity') return false;
  throw new Fault(
    'unsupported-media',
    `The Content-Encoding '${coding.slice(0, 40)}' of the body is not supported: send the body without an encoding, or with gzip`,
    { phase: 'request', headers: { 'accept-encoding': 'gzip, identity' } },
  );
}

/** Unpacks a body. The result takes from the memory for bodies. Returns undefined when it exceeds the limit. */
async function unpackedBody(
  packed: Buffer,
  limit: number,
  inspect: (part: Buffer) => void,
  memory: BodyShare | undefined,
): Promise<Buffer | undefined> {
  const unzip = createGunzip({ chunkSize: partBytes });
  unzip.end(packed);
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of unzip) {
      size += part.length;
      if (size > limit) return undefined;
      inspect(part);
      await memory?.add(part.length);
      parts.push(part);
    }
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && /^Z_/.test(String(error.code)))) throw error;
    throw malformedBody(
      'The body is not a complete gzip file, although its Content-Encoding is gzip: send it again',
    );
  } finally {
    unzip.destroy();
  }
  return Buffer.concat(parts, size);
}

function malformedBody(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'request' });
}
