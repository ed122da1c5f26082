/**
 * Returns bytes that may be kept for long: a copy with its own memory, unless they have it already. Node cuts small buffers out of blocks of 64 KiB,
 * and each of them keeps its whole block, whatever a cache counts for it.
 */
export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength <= 2 * bytes.length) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
