import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';

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
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(request, limit);
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > limit) throw tooLarge(request, limit);
    parts.push(part);
  }
  if (size === 0) throw malformed('The body is empty: send a JSON object');
  try {
    return JSON.parse(Buffer.concat(parts, size).toString('utf8'));
  } catch (cause) {
    throw malformed('The body is not valid JSON', cause);
  }
}

function tooLarge(request: IncomingMessage, limit: number): Fault {
  // The rest is read and dropped, within reason, or the client would see a broken connection in
  // place of the answer.
  request.resume();
  return new Fault(
    'too-large',
    `The body is larger than the ${limit} bytes allowed: give large layers by URL`,
    { phase: 'request', headers: { connection: 'close' } },
  );
}

function malformed(message: string, cause?: unknown): Fault {
  return new Fault('bad-request', message, { phase: 'request', cause });
}
