import { Fault } from '../../../foundation/fault.ts';
import type { ByteRange } from '../../../pull/blobs/found-blob.ts';

/**
 * Returns the part that a `Range` header requests, or undefined for the whole: no header, another unit, a
 * malformed value or several ranges. A server may answer all of these with the whole.
 * Throws a {@link Fault} (416, with `Content-Range`) when nothing of the range exists.
 * Source: RFC 9110, sections 14.1.2, 14.2 and 15.5.17.
 */
export function parseRange(header: string | undefined, size: number): ByteRange | undefined {
  const match = /^bytes=(\d*)-(\d*)$/i.exec(header ?? '');
  if (!match) return undefined;
  const [, first = '', last = ''] = match;
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    if (length === 0) throw unsatisfiable(size);
    return { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  // A last position before the first makes the header invalid; registries answer 416, and so does Sluice.
  if (start >= size || end < start) throw unsatisfiable(size);
  return { start, end };
}

function unsatisfiable(size: number): Fault {
  return new Fault('range-invalid', `The range is outside the blob, which has ${size} bytes`, {
    phase: 'request',
    headers: { 'content-range': `bytes */${size}` },
  });
}
