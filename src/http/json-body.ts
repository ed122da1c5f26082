import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';

/** Of a body that is too large, so much more is read before the answer is given all the same. */
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
  const body = await readBody(request, limit);
  if (!body) {
    throw new Fault(
      'too-large',
      `The body is larger than the ${limit} bytes allowed: give large layers by URL`,
      { phase: 'request', headers: { connection: 'close' } },
    );
  }
  if (body.length === 0) throw malformed('The body is empty: send a JSON object');
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    // Without the parser's words, which would show a part of the body in the log.
    throw malformed('The body is not valid JSON');
  }
}

/**
 * The bytes of the body, undefined when they are more than `limit`. What is too large is read on
 * and dropped, within reason, or the client would see a broken connection in place of the answer.
 */
function readBody(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
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

function malformed(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'request' });
}
