const magic = 0xfd2fb528;
const mostHeaderBytes = 18;
const skippableBytes = 8;
const singleSegment = 0x20;

/**
 * Returns the size of the window of the first zstd frame, in bytes; 0 for anything else. Parallel compressors write a
 * skippable frame before each. Source: RFC 8878, 3.1.1.1 and 3.1.2.
 *
 * @param stream the beginning of the stream
 */
export function frameWindow(stream: Buffer): number {
  let start = 0;
  while (isSkippable(stream, start)) start += skippableBytes + stream.readUInt32LE(start + 4);
  const bytes = Buffer.alloc(mostHeaderBytes);
  stream.subarray(start).copy(bytes);
  if (bytes.readUInt32LE(0) !== magic) return 0;
  const descriptor = bytes.readUInt8(4);
  if ((descriptor & singleSegment) === 0) {
    const window = bytes.readUInt8(5);
    const base = 2 ** (10 + (window >> 3));
    return base + (base / 8) * (window & 7);
  }
  // The window is the content.
  const at = 5 + ([0, 1, 2, 4][descriptor & 3] ?? 0);
  switch (descriptor >> 6) {
    case 0:
      return bytes.readUInt8(at);
    case 1:
      return bytes.readUInt16LE(at) + 256;
    case 2:
      return bytes.readUInt32LE(at);
    default:
      return Number(bytes.readBigUInt64LE(at));
  }
}

function isSkippable(stream: Buffer, at: number): boolean {
  return stream.length >= at + skippableBytes && stream.readUInt32LE(at) >>> 4 === 0x184d2a5;
}
