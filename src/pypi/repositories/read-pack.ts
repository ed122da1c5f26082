import { createHash } from 'node:crypto';
import { inflateSync } from 'node:zlib';

/** An object of a repository. */
export interface GitObject {
  readonly kind: 'commit' | 'tree' | 'blob' | 'tag';
  readonly content: Buffer;
}

/** What a pack may have: more is refused before it is in memory. */
export interface PackBounds {
  readonly maxObjects: number;
  /** Of one object. Larger ones are passed over: no commit, tag or tree has them. */
  readonly maxObjectBytes: number;
}

/** Thrown for bytes that are not a pack, and for one with more than its bounds. */
export class PackProblem extends Error {}

const kinds = ['', 'commit', 'tree', 'blob', 'tag'] as const;
const ofsDelta = 6;
const refDelta = 7;
const headBytes = 12;
const sumBytes = 20;
/** git makes chains of 50. */
const longestChain = 1000;
const keptBases = 64;
/** All of it is in memory for a moment. */
const mostSkipped = 32 * 1024 * 1024;

/**
 * Calls `take` for each object of a pack whose names a caller needs, with its name. The order is that of the pack. Source: git,
 * `gitformat-pack`.
 *
 * @param isWanted whether objects of a kind are read
 */
export function readPack(
  pack: Buffer,
  { maxObjects, maxObjectBytes }: PackBounds,
  isWanted: (kind: GitObject['kind']) => boolean,
  take: (id: string, object: GitObject) => void,
): void {
  if (pack.length < headBytes + sumBytes || pack.toString('latin1', 0, 4) !== 'PACK') {
    throw new PackProblem('it is not a pack');
  }
  const count = pack.readUInt32BE(8);
  if (count > maxObjects) throw new PackProblem(`it has ${count} objects, more than ${maxObjects}`);
  const end = pack.length - sumBytes;
  const kindAt = new Map<number, GitObject['kind']>();
  const placeOf = new Map<string, number>();
  const bases = new Map<number, GitObject>();

  const headAt = (start: number) => {
    let at = start;
    const next = () => {
      if (at >= end) throw new PackProblem('it ends too early');
      return pack[at++] ?? 0;
    };
    let byte = next();
    const type = (byte >> 4) & 7;
    let size = byte & 15;
    for (let scale = 16; byte & 128; scale *= 128) {
      byte = next();
      size += (byte & 127) * scale;
      if (size > Number.MAX_SAFE_INTEGER / 256) throw new PackProblem('an object has no size');
    }
    let base: number | undefined;
    if (type === ofsDelta) {
      byte = next();
      let distance = byte & 127;
      while (byte & 128) {
        byte = next();
        distance = (distance + 1) * 128 + (byte & 127);
        if (distance > start) break;
      }
      base = start - distance;
      if (distance < 1 || !kindAt.has(base)) throw new PackProblem('a delta has no base');
    } else if (type === refDelta) {
      if (at + 20 > end) throw new PackProblem('it ends too early');
      base = placeOf.get(pack.toString('hex', at, at + 20));
      at += 20;
      if (base === undefined) throw new PackProblem('a delta has no base');
    } else if (type === 0 || type === 5) throw new PackProblem('an object has no kind');
    return { type, size, base, at };
  };

  const inflateAt = (at: number, size: number): { bytes: Buffer; used: number } => {
    try {
      const { buffer, engine } = inflateSync(pack.subarray(at, end), {
        info: true,
        maxOutputLength: Math.max(size, 1),
        // The memory of short texts is not worth 16 KiB.
        chunkSize: Math.min(Math.max(size, 64), 64 * 1024),
      }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
      if (buffer.length !== size) throw new PackProblem('an object has another size');
      return { bytes: buffer, used: engine.bytesWritten };
    } catch (error) {
      throw error instanceof PackProblem ? error : new PackProblem('an object is damaged');
    }
  };

  /** Returns the object at a place, which was passed before. */
  const objectAt = (place: number): GitObject => {
    const deltas: Buffer[] = [];
    let at = place;
    let found = bases.get(at);
    while (found === undefined) {
      const head = headAt(at);
      if (head.size > maxObjectBytes) throw new PackProblem('an object is too large');
      const { bytes } = inflateAt(head.at, head.size);
      if (head.base === undefined) {
        found = { kind: kinds[head.type] as GitObject['kind'], content: bytes };
      } else {
        deltas.push(bytes);
        if (deltas.length > longestChain) throw new PackProblem('a delta has too many bases');
        at = head.base;
        found = bases.get(at);
      }
    }
    let { content } = found;
    for (const delta of deltas.reverse()) content = applyDelta(content, delta, maxObjectBytes);
    return { kind: found.kind, content };
  };

  let at = headBytes;
  for (let number = 0; number < count; number += 1) {
    const start = at;
    const head = headAt(start);
    const kind =
      head.base === undefined ? (kinds[head.type] as GitObject['kind']) : kindAt.get(head.base);
    if (kind === undefined) throw new PackProblem('a delta has no base');
    kindAt.set(start, kind);
    if (!isWanted(kind) || head.size > maxObjectBytes) {
      at = head.at + skippedBytes(pack.subarray(head.at, end), head.size);
      continue;
    }
    const { bytes, used } = inflateAt(head.at, head.size);
    at = head.at + used;
    const object: GitObject =
      head.base === undefined
        ? { kind, content: bytes }
        : { kind, content: applyDelta(objectAt(head.base).content, bytes, maxObjectBytes) };
    bases.set(start, object);
    if (bases.size > keptBases) bases.delete(bases.keys().next().value as number);
    const id = createHash('sha1')
      .update(`${kind} ${object.content.length}\0`)
      .update(object.content)
      .digest('hex');
    placeOf.set(id, start);
    take(id, object);
  }
  if (at !== end) throw new PackProblem('it has more than its objects');
}

/** Returns how many compressed bytes an object has that nobody reads. */
function skippedBytes(bytes: Buffer, size: number): number {
  if (size > mostSkipped) throw new PackProblem('an object is too large');
  try {
    const { engine } = inflateSync(bytes, {
      info: true,
      maxOutputLength: Math.max(size, 1),
      chunkSize: 64 * 1024,
    }) as unknown as { engine: { bytesWritten: number } };
    return engine.bytesWritten;
  } catch {
    throw new PackProblem('an object is damaged');
  }
}

function applyDelta(base: Buffer, delta: Buffer, maxBytes: number): Buffer {
  let at = 0;
  const next = () => {
    const byte = delta[at++];
    if (byte === undefined) throw new PackProblem('a delta ends too early');
    return byte;
  };
  const size = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = next();
      value += (byte & 127) * scale;
      if (value > 2 ** 40) throw new PackProblem('a delta has no size');
      if (byte < 128) return value;
    }
  };
  if (size() !== base.length) throw new PackProblem('a delta is for another base');
  const length = size();
  if (length > maxBytes) throw new PackProblem('an object is too large');
  const result = Buffer.allocUnsafe(length);
  let written = 0;
  const copy = (from: Buffer, start: number, many: number) => {
    if (start + many > from.length || written + many > length) {
      throw new PackProblem('a delta leads out of its base');
    }
    from.copy(result, written, start, start + many);
    written += many;
  };
  while (at < delta.length) {
    const command = next();
    if (command === 0) throw new PackProblem('a delta has an unknown part');
    if (command < 128) {
      copy(delta, at, command);
      at += command;
      continue;
    }
    let start = 0;
    let many = 0;
    for (let bit = 0; bit < 4; bit += 1) if (command & (1 << bit)) start += next() * 256 ** bit;
    for (let bit = 0; bit < 3; bit += 1) if (command & (16 << bit)) many += next() * 256 ** bit;
    copy(base, start, many || 65_536);
  }
  if (written !== length) throw new PackProblem('a delta ends too early');
  return result;
}
