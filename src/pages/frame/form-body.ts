import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import { readBody } from '../../http/bodies/read-body.ts';

const formType = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;
// A Dockerfile has up to 256 KiB, and its characters may take three bytes each.
const maxBytes = 1024 * 1024;

/** Reads the fields of a form that a browser sent. Throws a `Fault`: 415 for another content type, 413 for too much. */
export async function readFormBody(request: IncomingMessage): Promise<URLSearchParams> {
  if (!formType.test(request.headers['content-type'] ?? '')) {
    throw new Fault(
      'unsupported-media',
      'This address takes forms of pages only: programs use the API, see /docs',
      { phase: 'request' },
    );
  }
  const bytes = await readBody(request, maxBytes);
  if (!bytes) {
    throw new Fault('too-large', `The form is larger than the ${maxBytes} bytes allowed`, {
      phase: 'request',
      headers: { connection: 'close' },
    });
  }
  return new URLSearchParams(bytes.toString('utf8'));
}
