import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import { workOnEach } from '../../foundation/semaphore.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource } from '../content/byte-source.ts';
import type { KeptDraft } from '../content/index.ts';
import type { Bucket } from './bucket.ts';

const sentPartBytes = 8 * 1024 ** 2;
// S3 takes no more of them.
const mostParts = 10_000;
// Hashing this much takes about 1 ms.
const hashedPiece = 512 * 1024;

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
  if (size > sentPartBytes) return await bucket.upload(key, parts);
  for await (const whole of parts) await bucket.put(key, whole);
}

async function* partsOf(file: FileHandle, size: number, digest: Digest): AsyncIterable<Buffer> {
  const { algorithm, hex } = splitDigest(digest);
  const hash = createHash(algorithm);
  const most = Math.max(sentPartBytes, Math.ceil(size / mostParts));
  let position = 0;
  do {
    const part = Buffer.allocUnsafe(Math.min(most, size - position));
    for (let filled = 0; filled < part.length; ) {
      const { bytesRead } = await file.read(part, filled, part.length - filled, position + filled);
      if (bytesRead === 0) throw damagedFile(digest);
      filled += bytesRead;
    }
    for (let from = 0; from < part.length; from += hashedPiece) {
      if (from > 0) await nextTurn();
      hash.update(part.subarray(from, from + hashedPiece));
    }
    position += part.length;
    if (position === size && hash.digest('hex') !== hex) throw damagedFile(digest);
    yield part;
  } while (position < size);
}

function damagedFile(digest: Digest): Fault {
  return new Fault(
    'unavailable',
    `The disk changed ${digest} on its way to the store: send it again`,
    {
      phase: 'store',
      retryAfterSeconds: 1,
    },
  );
}

/** The bytes of unfinished content that another server can continue: small objects, in folders by draft. */
interface KeptParts {
  /**
   * Adds so many bytes, which come next; resolves when the store has them.
   *
   * @param start position of the first one
   */
  add(draft: string, start: number, length: number, bytes: ByteSource): Promise<void>;
  /**
   * Yields the bytes in order, up to the kept size: fewer when some are missing. Removes those that were sent and never
   * acknowledged.
   */
  read(kept: KeptDraft): AsyncIterable<Buffer>;
  /** Removes all bytes of a draft. */
  remove(draft: string): Promise<void>;
  /**
   * Removes the bytes of all drafts but these that were put there before the moment; returns the number of objects.
   * @param signal ends the work between two objects, and rejects with its reason
   */
  removeOthers(before: number, kept: readonly KeptDraft[], signal?: AbortSignal): Promise<number>;
}

/** An object with the bytes from `start` to `end` (excluded). */
interface Part {
  readonly key: string;
  readonly start: number;
  readonly end: number;
}

const removalsAtOnce = 8;
const keptFolder = 'uploads/';
// Reading one takes a few seconds at most, also through a slow connection.
const keptPartBytes = 8 * 1024 ** 2;
// Keys are listed in the order of their text.
const positionDigits = 16;

export function keptParts(bucket: Bucket): KeptParts {
  // A late object of a former server has another name, unless it has the same bytes.
  const keyOf = (draft: string, start: number, end: number) =>
    `${keptFolder}${draft}/${[start, end].map(at => String(at).padStart(positionDigits, '0')).join('-')}`;

  const partsOf = async (draft: string): Promise<Part[]> => {
    const parts: Part[] = [];
    for await (const { key } of bucket.list(`${keptFolder}${draft}/`)) {
      const [start = Number.NaN, end = 0] = (key.split('/').at(-1) ?? '').split('-').map(Number);
      parts.push({ key, start, end });
    }
    return parts;
  };
  const removeAll = async (parts: AsyncIterable<string> | Iterable<string>): Promise<number> => {
    let removed = 0;
    await workOnEach(parts, removalsAtOnce, async key => {
      await bucket.remove(key);
      removed += 1;
    });
    return removed;
  };

  return {
    async add(draft, start, length, source) {
      let position = start;
      for await (const part of cutInPieces(source, length)) {
        await bucket.put(keyOf(draft, position, position + part.length), part);
        position += part.length;
      }
    },

    async *read({ draft, size }) {
      const parts = await partsOf(draft);
      await removeAll(parts.filter(({ start }) => start >= size).map(({ key }) => key));
      const chain = chainOf(parts, size);
      const [first] = chain;
      let next = first && bucket.read(first.key);
      let position = 0;
      for (const [at, { start, end }] of chain.entries()) {
        const bytes = await next;
        if (!bytes) return;
        const following = chain[at + 1];
        next = following && bucket.read(following.key);
        next?.catch(() => {});
        const most = Math.min(end, size) - start;
        for (let from = position - start; from < most; from += hashedPiece) {
          yield bytes.subarray(from, Math.min(most, from + hashedPiece));
        }
        position = end;
      }
    },

    async remove(draft) {
      await removeAll((await partsOf(draft)).map(({ key }) => key));
    },

    removeOthers(before, kept, signal) {
      const known = new Set(kept.map(({ draft }) => draft));
      const unknownParts = async function* () {
        for await (const { key, modified } of bucket.list(keptFolder)) {
          signal?.throwIfAborted();
          const [draft = ''] = key.slice(keptFolder.length).split('/');
          if (!known.has(draft) && modified < before) yield key;
        }
      };
      return removeAll(unknownParts());
    },
  };
}

/** Returns parts that follow each other, up to the size. They end before it when one is missing. */
function chainOf(parts: readonly Part[], size: number): Part[] {
  const chain: Part[] = [];
  let position = 0;
  let best: Part | undefined;
  let next = 0;
  while (position < size) {
    // Of all that begin here or before, the one that ends last.
    for (let part = parts[next]; part && part.start <= position; part = parts[next]) {
      if (!best || part.end > best.end) best = part;
      next += 1;
    }
    if (!best || best.end <= position) break;
    chain.push(best);
    position = best.end;
  }
  return chain;
}

/** Cuts the bytes into parts: all but the last of one size. */
async function* cutInPieces(source: ByteSource, length: number): AsyncIterable<Buffer> {
  let left = length;
  let part = Buffer.alloc(0);
  let filled = 0;
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      const full: Buffer[] = [];
      for (let { bytes } = chunk; bytes.length > 0; ) {
        if (filled === part.length) {
          part = Buffer.allocUnsafe(Math.min(keptPartBytes, left));
          filled = 0;
        }
        const taken = bytes.subarray(0, part.length - filled);
        part.set(taken, filled);
        filled += taken.length;
        left -= taken.length;
        bytes = bytes.subarray(taken.length);
        if (filled === part.length) full.push(part);
      }
      // Its memory is on loan, and the next step takes time, or fails.
      chunk.release();
      yield* full;
    }
  } finally {
    source.destroy();
  }
}
