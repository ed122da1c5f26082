/** Bytes that are read in any order: of a file of any size. */
export interface ByteSource {
  /** Bytes. */
  readonly size: number;
  /** Returns the bytes in a range, which must be inside: a view that is valid until the next call, not to be changed. */
  read(offset: number, length: number): Buffer;
}

const wholeBytes = 1024 * 1024;

/** Bytes to read at once. */
export const chunkBytes = 128 * 1024;

/** Returns the same bytes, those of a small file read once. */
export function readOnce(source: ByteSource): ByteSource {
  const { size } = source;
  if (size > wholeBytes) return source;
  const bytes = source.read(0, size);
  return { size, read: (offset, length) => bytes.subarray(offset, offset + length) };
}

/** A part of a file that other bytes replace. */
export interface Patch {
  readonly start: number;
  readonly end: number;
  readonly bytes: Buffer;
}

/** Returns the size of a file with its patches, in bytes. */
export function patchedSize(size: number, patches: readonly Patch[]): number {
  return patches.reduce((sum, { start, end, bytes }) => sum + bytes.length - (end - start), size);
}

/** Yields the bytes of a file with its patches, which are sorted and do not overlap: views, valid until the next one. */
export function* patchedChunks(source: ByteSource, patches: readonly Patch[]): Generator<Buffer> {
  let at = 0;
  for (const { start, end, bytes } of [...patches, endOf(source)]) {
    while (at < start) {
      const length = Math.min(chunkBytes, start - at);
      yield source.read(at, length);
      at += length;
    }
    if (bytes.length > 0) yield bytes;
    at = end;
  }
}

function endOf({ size }: ByteSource): Patch {
  return { start: size, end: size, bytes: Buffer.alloc(0) };
}
