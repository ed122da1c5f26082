import { Fault } from '../../../foundation/fault.ts';
import type { ByteRange } from '../../../pull/index.ts';

// Each range of a relayed blob is a request to its registry. podman asks for up to 1024 ranges at once; after a 400 it
// asks for half as many, down to 64.
const mostRanges = 128;
// Longer headers are not ranges of any client.
const longestHeader = 16 * 1024;

/**
 * Returns the parts that a `Range` header requests, in its order; undefined for the whole: no header, another unit or
 * a malformed value, all of which a server may answer with the whole. Parts that overlap become one, where the first
 * of them was; parts outside the content are left out.
 * Throws a {@link Fault}: 416, with `Content-Range`, when nothing of the ranges exists; 400 for too many ranges.
 * Source: RFC 9110, sections 14.1.2, 14.2, 15.3.7 and 15.5.17.
 */
export function parseRanges(header: string | undefined, size: number): ByteRange[] | undefined {
  if (header === undefined || header.length > longestHeader) return undefined;
  const [, list] = /^bytes=([\d\s,-]+)$/i.exec(header) ?? [];
  if (list === undefined) return undefined;
  const specs = list
    .split(',')
    .map(spec => spec.trim())
    .filter(spec => spec !== '');
  if (specs.length > mostRanges) throw tooMany(specs.length);
  const parts: ByteRange[] = [];
  for (const spec of specs) {
    const [, first, last] = /^(\d*)-(\d*)$/.exec(spec) ?? [];
    if (first === undefined || last === undefined || spec === '-') return undefined;
    const part = partOf(first, last, size);
    if (part) parts.push(part);
  }
  if (specs.length === 0) return undefined;
  if (parts.length === 0) throw unsatisfiable(size);
  return merged(parts);
}

function partOf(first: string, last: string, size: number): ByteRange | undefined {
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? undefined : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  // The start is outside, or the last position is before the first. That makes the header invalid; registries answer
  // 416, and so does Sluice.
  return end < start ? undefined : { start, end };
}

/** Parts that only touch stay apart: clients count the parts that they asked for. */
function merged(parts: readonly ByteRange[]): ByteRange[] {
  const apart: ByteRange[] = [];
  for (const part of parts) {
    let { start, end } = part;
    let place = apart.length;
    // A part that grows does not reach parts before: they overlap neither it nor what it grows by.
    for (let at = 0; at < apart.length; ) {
      const other = apart[at] as ByteRange;
      if (other.start > end || other.end < start) {
        at += 1;
        continue;
      }
      start = Math.min(start, other.start);
      end = Math.max(end, other.end);
      place = Math.min(place, at);
      apart.splice(at, 1);
    }
    apart.splice(place, 0, { start, end });
  }
  return apart;
}

function tooMany(count: number): Fault {
  return new Fault(
    'bad-request',
    `The request has ${count} ranges, at most ${mostRanges} are allowed: ask for fewer at once`,
    { phase: 'request' },
  );
}

function unsatisfiable(size: number): Fault {
  return new Fault('range-invalid', `The range is outside the blob, which has ${size} bytes`, {
    phase: 'request',
    headers: { 'content-range': `bytes */${size}` },
  });
}
