import type { IncomingMessage } from 'node:http';

/** Of a body that is too large, so much more is read before the answer is given all the same. */
const droppedBytes = 64 * 1024 * 1024;

/**
 * The bytes of the body, undefined when they are more than `limit`. What is too large is read on
 * and dropped, within reason, or the client would see a broken connection in place of the answer.
 */
export function readBody(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | undefined>();
  const parts: Buffer[] = [];
  let size = 0;
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
