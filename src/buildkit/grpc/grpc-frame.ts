const prefixBytes = 5;

/** Returns the message in a frame of gRPC over HTTP/2: flag, length, bytes. Never compresses it. */
export function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame.writeUInt8(0, 0);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

/**
 * Yields the messages in a stream of bytes. Throws an `Error` for a message that is compressed, longer than the limit
 * (bytes) or truncated.
 */
export async function* messagesIn(
  chunks: AsyncIterable<Buffer>,
  limit: number,
): AsyncGenerator<Buffer> {
  const waiting: Buffer[] = [];
  let bytes = 0;
  let wanted = prefixBytes;
  let isPrefix = true;
  for await (const chunk of chunks) {
    waiting.push(chunk);
    bytes += chunk.length;
    while (bytes >= wanted) {
      const all = waiting.length === 1 && waiting[0] ? waiting[0] : Buffer.concat(waiting);
      const part = all.subarray(0, wanted);
      const rest = all.subarray(wanted);
      waiting.length = 0;
      if (rest.length > 0) waiting.push(rest);
      bytes = rest.length;
      if (isPrefix) {
        if (part.readUInt8(0) !== 0)
          throw new Error('A message is compressed, which is not supported');
        wanted = part.readUInt32BE(1);
        if (wanted > limit) throw new Error(`A message of ${wanted} bytes is too long`);
        isPrefix = false;
      } else {
        yield part;
        wanted = prefixBytes;
        isPrefix = true;
      }
    }
  }
  if (bytes > 0 || !isPrefix) throw new Error('The stream ended within a message');
}
