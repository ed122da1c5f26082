import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';
import { readBody } from './body.ts';

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

function malformed(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'request' });
}
