import { crc32 } from 'node:zlib';
import { giveInstance, memberBytes, memberHeader, takeInstance } from './deflate-instance.ts';

/**
 * Compresses bytes as gzip members, for layers. The same bytes give the same members on every machine, whatever the
 * sizes of the pieces. It computes on the thread that calls it: about 80 MB a second.
 */
export interface GzipWriter extends Disposable {
  /** Takes the next bytes, of any length. */
  write(bytes: Uint8Array): void;
  /** Ends the last member. What is written next begins a new one. */
  end(): void;
}

export interface GzipOptions {
  /** Stores members whose bytes look random, such as those of archives. That takes a tenth of the time. */
  readonly storesRandom?: boolean;
}

/** @param put receives each member: a view that is valid until the next call of `write` or `end` */
export function createGzipWriter(
  put: (member: Buffer) => void,
  { storesRandom = false }: GzipOptions = {},
): GzipWriter {
  const instance = takeInstance();
  const { content, stream, member } = instance;
  let size = 0;

  const end = (): void => {
    if (size === 0) return;
    const bytes = content.subarray(0, size);
    let at = memberHeader.copy(member);
    if (storesRandom && looksRandom(bytes)) at = store(bytes, member, at);
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
    [Symbol.dispose]: () => giveInstance(instance),
  };
}

const sampleStep = 8;
const values = 256;
/** Sample of bytes below which chance alone makes them look uneven. */
const leastSample = 16 * 1024;
// The sum of the squares is more than 1.01 times that of even bytes if deflate could save a hundredth.
const evenness = 1.01;

/** Returns true if all bytes are about as frequent as each other: deflate then finds nothing to save. */
function looksRandom(bytes: Buffer): boolean {
  const sample = Math.floor(bytes.length / sampleStep);
  if (sample < leastSample) return false;
  const counts = new Uint32Array(values);
  for (let at = 0; at < sample; at += 1) {
    const value = bytes[at * sampleStep] as number;
    counts[value] = (counts[value] as number) + 1;
  }
  const squares = counts.reduce((sum, count) => sum + count * count, 0);
  // Random bytes have the sample more than even ones.
  return squares - sample < (evenness * sample * sample) / values;
}

const mostStoredBytes = 0xffff;

/** Writes the bytes as stored blocks; returns the offset of their end. Source: RFC 1951, section 3.2.4. */
function store(bytes: Buffer, member: Buffer, start: number): number {
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
