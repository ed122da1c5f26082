import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { readBody } from '../../http/index.ts';

const [ampersand, percent] = [38, 37];
const formType = /^application\/x-www-form-urlencoded\s*(?:;|$)/i;
// A Dockerfile has up to 256 KiB, and a browser may write each of its bytes with three.
const maxBytes = 1024 * 1024;
const maxChars = 384 * 1024;
// Five hundred packages, and all else in a form. A million fields take seconds to read.
const maxFields = 1000;

/**
 * Reads the fields of a form that a browser sent. Throws a `Fault`: 415 for another content type, 413 for too much, 400
 * for too many fields.
 */
export async function readFormBody(request: IncomingMessage): Promise<URLSearchParams> {
  if (!formType.test(request.headers['content-type'] ?? '')) {
    throw new Fault(
      'unsupported-media',
      'This address takes forms of pages only: programs use the API, see /docs',
      { phase: 'request' },
    );
  }
  const bytes = await readBody(request, maxBytes);
  if (!bytes) throw tooLarge(maxBytes);
  const { fields, chars } = sizeOf(bytes);
  if (chars > maxChars) throw tooLarge(maxChars);
  if (fields > maxFields) {
    throw new Fault('bad-request', `The form has more than the ${maxFields} fields allowed`, {
      phase: 'request',
    });
  }
  return new URLSearchParams(bytes.toString('utf8'));
}

/** Returns the schema of a field that may be absent. An empty field of a form counts as absent. */
export function optional<S extends z.ZodType>(schema: S) {
  return z.preprocess(value => (value === '' ? undefined : value), schema.optional());
}

/** Counts the fields of a form, and its bytes without their encoding, before it is read. */
function sizeOf(bytes: Buffer): { readonly fields: number; readonly chars: number } {
  let [fields, chars] = [1, bytes.length];
  for (const byte of bytes) {
    if (byte === ampersand) fields += 1;
    else if (byte === percent) chars -= 2;
  }
  return { fields, chars };
}

function tooLarge(most: number): Fault {
  return new Fault('too-large', `The form is larger than the ${most} bytes allowed`, {
    phase: 'request',
    headers: { connection: 'close' },
  });
}
