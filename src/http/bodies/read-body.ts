import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import { bodyTermsOf } from './body-memory.ts';

/** Of a body that is too large, so much more is read before the answer is given all the same. */
const droppedBytes = 64 * 1024 * 1024;
const droppingMs = 5000;
/** A client must send so much of a body in time, or what is left of it. */
const progressBytes = 64 * 1024;
const usualStallMs = 20_000;

/**
 * The bytes of the body, undefined when they are more than `limit`. What is too large is read on
 * and dropped, within reason, or the client would see a broken connection in place of the answer.
 * Throws a {@link Fault}: 408 for a client that sends too slowly, 503 when bodies hold all the memory
 * that they may; and what `inspect` throws, which sees the bytes as they arrive.
 */
export function readBody(
  request: IncomingMessage,
  limit: number,
  inspect: (part: Buffer) => void = () => {},
): Promise<Buffer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const { memory, stallMs = usualStallMs } = bodyTermsOf(request) ?? {};
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
      // The rest is read and dropped with the answer.
      fail(error);
      return;
    }
    parts.push(part);
    const room = memory?.add(part.length);
    if (!room) return;
    // Few bytes are here already; no more are read until there is memory. That wait does not count as the client's.
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
 * Reads on and drops what is left of a body, within reason: who is still sending would see a broken
 * connection in place of the answer. Resolves with false when there is more.
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
