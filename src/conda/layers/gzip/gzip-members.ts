import { closeSync, openSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import {
  type Deflate,
  openDeflate,
  openEnded,
  usualLevel,
} from '../../../archives/deflate/deflate.ts';

/**
 * Compresses bytes as gzip members, for layers. The same bytes give the same members on every machine, whatever the
 * sizes of the pieces. It computes on the thread that calls it: about 80 MB a second.
 */
export interface GzipWriter extends Disposable {
  /** Takes the next bytes, of any length. */
  write(bytes: Uint8Array): void;
  /** Ends the last member. What is written next begins a new one. */
  end(): void;
  /** Ends the last member, and writes pieces of at most {@link memberBytes} as one member, however many they are. */
  single(pieces: Iterable<Uint8Array>): void;
}

interface GzipOptions {
  /** Stores members whose bytes look random, such as those of archives. That takes a tenth of the time. */
  readonly storesRandom?: boolean;
  /** 0 to 9. Default: {@link usualLevel}. */
  readonly level?: number;
}

/** @param put receives each member, or the parts of one in their order: a view that is valid until the next call */
export function createGzipWriter(
  put: (member: Buffer) => void,
  { storesRandom = false, level = usualLevel }: GzipOptions = {},
): GzipWriter {
  const instance = takeInstance(level);
  const { content, stream, member } = instance;
  let size = 0;

  const end = (): void => {
    if (size === 0) return;
    const bytes = content.subarray(0, size);
    let at = memberHeader.copy(member);
    if (storesRandom && looksRandom(bytes)) at = storeMember(bytes, member, at);
    else at += stream.copy(member, at, 0, instance.compress(size));
    at = member.writeUInt32LE(crc32(bytes), at);
    at = member.writeUInt32LE(size, at);
    size = 0;
    put(member.subarray(0, at));
  };

  return {
    write(bytes) {
      for (let from = 0; from < bytes.length; ) {
        const piece = bytes.subarray(from, from + memberBytes - size);
        content.set(piece, size);
        size += piece.length;
        from += piece.length;
        if (size === memberBytes) end();
      }
    },
    end,
    single(pieces) {
      end();
      let sum = 0;
      let bytes = 0;
      put(memberHeader);
      for (const piece of pieces) {
        content.set(piece);
        sum = crc32(piece, sum);
        bytes += piece.length;
        put(openEnded(stream.subarray(0, instance.compress(piece.length))));
      }
      let at = lastBlock.copy(member);
      at = member.writeUInt32LE(sum, at);
      at = member.writeUInt32LE(bytes % 2 ** 32, at);
      put(member.subarray(0, at));
    },
    [Symbol.dispose]: () => giveInstance(instance),
  };
}

const sampleStep = 8;
const byteValues = 256;
/** Sample of bytes below which chance alone makes them look uneven. */
const leastSample = 16 * 1024;
// The sum of the squares is more than 1.01 times that of even bytes if deflate could save a hundredth.
const evenness = 1.01;

/** Returns true if all bytes are about as frequent as each other: deflate then finds nothing to save. */
function looksRandom(bytes: Buffer): boolean {
  const sample = Math.floor(bytes.length / sampleStep);
  if (sample < leastSample) return false;
  const counts = new Uint32Array(byteValues);
  for (let at = 0; at < sample; at += 1) {
    const value = bytes[at * sampleStep] as number;
    counts[value] = (counts[value] as number) + 1;
  }
  const squares = counts.reduce((sum, count) => sum + count * count, 0);
  // Random bytes have the sample more than even ones.
  return squares - sample < (evenness * sample * sample) / byteValues;
}

const mostStoredBytes = 0xffff;

/** Writes the bytes as stored blocks; returns the offset of their end. Source: RFC 1951, section 3.2.4. */
function storeMember(bytes: Buffer, member: Buffer, start: number): number {
  let at = start;
  for (let from = 0; from < bytes.length; from += mostStoredBytes) {
    const block = bytes.subarray(from, from + mostStoredBytes);
    at = member.writeUInt8(from + block.length === bytes.length ? 1 : 0, at);
    at = member.writeUInt16LE(block.length, at);
    at = member.writeUInt16LE(~block.length & mostStoredBytes, at);
    at += block.copy(member, at);
  }
  return at;
}

/** A gzip member of a layer. */
interface ReadMember {
  readonly member: Buffer;
  readonly content: Buffer;
}

/**
 * Yields the members in the first bytes of a file that `createGzipWriter` has made: views that are valid until the next
 * one. Throws an error for a file that is damaged or shorter.
 */
export function* readMembers(path: string, bytes: number): Generator<ReadMember> {
  const instance = takeInstance(usualLevel);
  const file = openSync(path, 'r');
  try {
    for (let position = 0; position < bytes; ) {
      const most = Math.min(instance.member.length, bytes - position);
      const read = readSync(file, instance.member, 0, most, position);
      const next = firstMember(instance, read);
      if (next === undefined)
        throw new Error('a kept layer is damaged or shorter than its row says');
      position += next.member.length;
      yield next;
    }
  } finally {
    closeSync(file);
    giveInstance(instance);
  }
}

function firstMember(instance: DeflateInstance, size: number): ReadMember | undefined {
  const { member, stream, content } = instance;
  const { length: start } = memberHeader;
  if (size <= start || member.compare(memberHeader, 0, start, 0, start) !== 0) return undefined;
  member.copy(stream, 0, start, size);
  const used = instance.inflate(size - start);
  const end = start + used + trailerBytes;
  if (used === 0 || end > size) return undefined;
  const inflated = content.subarray(0, instance.inflated());
  const isRight =
    member.readUInt32LE(start + used) === crc32(inflated) &&
    member.readUInt32LE(start + used + 4) === inflated.length;
  return isRight ? { member: member.subarray(0, end), content: inflated } : undefined;
}

/** Memory to compress or to decompress one member after another. */
interface DeflateInstance extends Deflate {
  readonly level: number;
  /** Room for any member. */
  readonly member: Buffer;
}

/**
 * Uncompressed bytes of a member. A change, like one of the level, changes every layer: see `layerVersion`.
 */
export const memberBytes = 1024 * 1024;

/** RFC 1952: magic, deflate, no flags, no time, no extra flags, unknown operating system. */
const memberHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
const trailerBytes = 8;
/** RFC 1951: an empty stored block that is the last one, at the beginning of a byte. */
const lastBlock = Buffer.from([1, 0, 0, 0xff, 0xff]);
/** Bytes that a member has at most: incompressible content is stored, with 5 more for each 64 KiB. */
export const mostMemberBytes = memberBytes + 1024;

/** The last instance of this thread: each layer would leave its memory for the garbage collector. */
let spareInstance: DeflateInstance | undefined;

/** Returns an instance with its own memory, about 4 MB. */
function takeInstance(level: number): DeflateInstance {
  if (spareInstance?.level !== level) return createInstance(level);
  const instance = spareInstance;
  spareInstance = undefined;
  return instance;
}

/** Takes back an instance that is not used any more. */
function giveInstance(instance: DeflateInstance): void {
  // Those of rare levels are not kept.
  if (instance.level === usualLevel) spareInstance = instance;
}

function createInstance(level: number): DeflateInstance {
  const deflate = openDeflate(level, memberBytes, mostMemberBytes - memberHeader.length);
  return { ...deflate, level, member: Buffer.allocUnsafeSlow(mostMemberBytes) };
}
