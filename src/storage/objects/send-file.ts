import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { Bucket } from './bucket/bucket.ts';

const partBytes = 8 * 1024 ** 2;
// S3 takes no more of them.
const mostParts = 10_000;
// Hashing this much takes about 1 ms.
const pieceBytes = 512 * 1024;

/**
 * Sends a file to the bucket: in one request when it is small, otherwise in parts. The bytes are hashed again on their
 * way, so that a disk that has changed them makes no object.
 */
export async function sendFile(
  bucket: Bucket,
  key: string,
  path: string,
  size: number,
  digest: Digest,
): Promise<void> {
  await using file = await open(path, 'r');
  const parts = partsOf(file, size, digest);
  if (size > partBytes) return await bucket.upload(key, parts);
  for await (const whole of parts) await bucket.put(key, whole);
}

async function* partsOf(file: FileHandle, size: number, digest: Digest): AsyncIterable<Buffer> {
  const { algorithm, hex } = splitDigest(digest);
  const hash = createHash(algorithm);
  const most = Math.max(partBytes, Math.ceil(size / mostParts));
  let position = 0;
  do {
    const part = Buffer.allocUnsafe(Math.min(most, size - position));
    for (let filled = 0; filled < part.length; ) {
      const { bytesRead } = await file.read(part, filled, part.length - filled, position + filled);
      if (bytesRead === 0) throw damaged(digest);
      filled += bytesRead;
    }
    for (let from = 0; from < part.length; from += pieceBytes) {
      if (from > 0) await nextTurn();
      hash.update(part.subarray(from, from + pieceBytes));
    }
    position += part.length;
    if (position === size && hash.digest('hex') !== hex) throw damaged(digest);
    yield part;
  } while (position < size);
}

function damaged(digest: Digest): Fault {
  return new Fault(
    'unavailable',
    `The disk changed ${digest} on its way to the store: send it again`,
    {
      phase: 'store',
      retryAfterSeconds: 1,
    },
  );
}
