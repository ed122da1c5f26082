import { RunQueue } from '../../foundation/run-queue.ts';
import type { ByteSource } from '../content/byte-source.ts';
import type { KeptDraft } from '../content/ingest.ts';
import type { Bucket, ListedObject } from './bucket.ts';

/** The bytes of unfinished content that another server can continue: small objects, in folders by draft. */
export interface KeptParts {
  /**
   * Adds the bytes that come next; resolves when the store has them.
   *
   * @param start position of the first one
   */
  add(draft: string, start: number, bytes: ByteSource): Promise<void>;
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
    async add(draft, start, source) {
      let position = start;
      for await (const part of partsOf(source)) {
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
async function* partsOf(source: ByteSource): AsyncIterable<Buffer> {
  let pieces: Buffer[] = [];
  let size = 0;
  try {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      // The memory of a chunk is on loan.
      const piece = Buffer.from(chunk.bytes);
      chunk.release();
      pieces.push(piece);
      size += piece.length;
      if (size < partBytes) continue;
      yield Buffer.concat(pieces);
      pieces = [];
      size = 0;
    }
    if (size > 0) yield Buffer.concat(pieces);
  } finally {
    source.destroy();
  }
}
