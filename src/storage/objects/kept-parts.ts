import { RunQueue } from '../../foundation/run-queue.ts';
import type { ByteSource } from '../content/byte-source.ts';
import type { KeptDraft } from '../content/ingest.ts';
import type { Bucket, ListedObject } from './bucket.ts';

/** The bytes of unfinished content that another server can continue: small objects, in folders by draft. */
export interface KeptParts {
  /**
   * Adds so many bytes, which come next; resolves when the store has them.
   *
   * @param start position of the first one
   */
  add(draft: string, start: number, length: number, bytes: ByteSource): Promise<void>;
  /** Yields the bytes in order, up to the kept size: fewer when some are missing. */
  read(kept: KeptDraft): AsyncIterable<Buffer>;
  /** Removes all bytes of a draft. */
  remove(draft: string): Promise<void>;
  /** Removes the bytes of all drafts but these that were put there before the moment; returns the number of objects. */
  removeOthers(before: number, kept: readonly KeptDraft[]): Promise<number>;
}

const removalsAtOnce = 8;
const folder = 'uploads/';
// Reading one takes a few seconds at most, also through a slow connection.
const partBytes = 8 * 1024 ** 2;
// Keys are listed in the order of their text.
const digits = 16;

export function keptParts(bucket: Bucket): KeptParts {
  const keyOf = (draft: string, start: number) =>
    `${folder}${draft}/${String(start).padStart(digits, '0')}`;
  const objectsOf = (draft: string): AsyncIterable<ListedObject> =>
    bucket.list(`${folder}${draft}/`);

  return {
    async add(draft, start, length, source) {
      let position = start;
      for await (const part of partsOf(source, length)) {
        await bucket.put(keyOf(draft, position), part);
        position += part.length;
      }
    },

    async *read({ draft, size }) {
      let position = 0;
      for await (const { key } of objectsOf(draft)) {
        if (position >= size || key !== keyOf(draft, position)) return;
        const part = await bucket.read(key);
        if (!part) return;
        yield part.subarray(0, size - position);
        position += part.length;
      }
    },

    async remove(draft) {
      const queue = new RunQueue(removalsAtOnce);
      const removals: Promise<void>[] = [];
      for await (const { key } of objectsOf(draft)) {
        removals.push(queue.run(() => bucket.remove(key)));
      }
      await Promise.all(removals);
    },

    async removeOthers(before, kept) {
      const known = new Set(kept.map(({ draft }) => draft));
      let removed = 0;
      for await (const { key, modified } of bucket.list(folder)) {
        const [draft = ''] = key.slice(folder.length).split('/');
        if (known.has(draft) || modified >= before) continue;
        await bucket.remove(key);
        removed += 1;
      }
      return removed;
    },
  };
}

/** Cuts the bytes into parts: all but the last of one size. */
async function* partsOf(source: ByteSource, length: number): AsyncIterable<Buffer> {
  let left = length;
  let part = Buffer.alloc(0);
  let filled = 0;
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      for (let { bytes } = chunk; bytes.length > 0; ) {
        if (filled === part.length) {
          part = Buffer.allocUnsafe(Math.min(partBytes, left));
          filled = 0;
        }
        const taken = bytes.subarray(0, part.length - filled);
        part.set(taken, filled);
        filled += taken.length;
        left -= taken.length;
        bytes = bytes.subarray(taken.length);
        if (filled === part.length) yield part;
      }
      chunk.release();
    }
  } finally {
    source.destroy();
  }
}
