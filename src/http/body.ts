import type { IncomingMessage } from 'node:http';

/** Of a body that is too large, so much more is read before the answer is given all the same. */
const droppedBytes = 64 * 1024 * 1024;
const droppingMs = 5000;
// A body that is read whole is small: who takes longer for it holds a connection, not a transfer.
const readingMs = 5 * 60_000;

/**
 * The bytes of the body, undefined when they are more than `limit`. What is too large is read on
 * and dropped, within reason, or the client would see a broken connection in place of the answer.
 */
export function readBody(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const parts: Buffer[] = [];
  let size = 0;
  const timer = setTimeout(() => request.destroy(new Error('the body takes too long')), readingMs);
  request.once('close', () => clearTimeout(timer));
  request.on('data', (part: Buffer) => {
    size += part.length;
    if (size <= limit) parts.push(part);
    else parts.length = 0;
    if (size > limit + droppedBytes) resolve(undefined);
  });
  request.once('end', () => resolve(size > limit ? undefined : Buffer.concat(parts, size)));
  request.once('error', reject);
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
