import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';

/** Of a body that is too large, so much is read before the connection is broken. */
const droppedBytes = 64 * 1024 * 1024;

/**
 * The JSON value in a request's body. Throws a {@link Fault}: 413 beyond `limit` bytes, 415 for
 * another content type, 400 for malformed JSON.
 */
export async function readJsonBody(request: IncomingMessage, limit: number): Promise<unknown> {
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/(?:[a-z.+-]+\+)?json\s*(?:;|$)/i.test(type)) {
    throw new Fault(
      'unsupported-media',
      'The body must be JSON: send Content-Type: application/json',
      {
        phase: 'request',
      },
    );
  }
  if (Number(request.headers['content-length'] ?? 0) > limit) throw await tooLarge(request, limit);
  const parts: Buffer[] = [];
  let size = 0;
  // Left early it must stay open, or the answer would have no connection to go out by.
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    size += part.length;
    if (size > limit) throw await tooLarge(request, limit);
    parts.push(part);
  }
  if (size === 0) throw malformed('The body is empty: send a JSON object');
  try {
    return JSON.parse(Buffer.concat(parts, size).toString('utf8'));
  } catch {
    // Without the parser's words, which would show a part of the body in the log.
    throw malformed('The body is not valid JSON');
  }
}

async function tooLarge(request: IncomingMessage, limit: number): Promise<Fault> {
  // The rest is read and dropped, within reason, or the client would see a broken connection in
  // place of the answer.
  await drop(request);
  return new Fault(
    'too-large',
    `The body is larger than the ${limit} bytes allowed: give large layers by URL`,
    { phase: 'request', headers: { connection: 'close' } },
  );
}

async function drop(request: IncomingMessage): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let left = droppedBytes;
  request.on('data', (part: Buffer) => {
    left -= part.length;
    if (left < 0) resolve();
  });
  for (const event of ['end', 'error', 'close']) request.once(event, () => resolve());
  request.resume();
  await promise;
}

function malformed(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'request' });
}
