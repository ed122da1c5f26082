import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import { stateOf } from '../request-state.ts';

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
