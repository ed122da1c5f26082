import { packedHeader, tarEnd, tarPadding } from '../archives/tar-writer.ts';
import { pauseTurn } from '../foundation/pause-turn.ts';
import { type ContextEntry, tarEntryOf } from './entry-list.ts';

/**
 * Passes the tar file of a build context to `update`, piece by piece. The bytes equal those of the same context packed
 * into a request, so both get the same build key.
 *
 * @param content the concatenated content of all files
 */
export async function hashTar(
  entries: Iterable<ContextEntry>,
  content: AsyncIterable<Uint8Array>,
  update: (piece: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const feed = new Feed(content);
  // A hash on another thread takes longer to receive a piece than to read it.
  let pieces: Uint8Array[] = [];
  let size = 0;
  const flush = async () => {
    const bytes = Buffer.concat(pieces);
    [pieces, size] = [[], 0];
    await update(bytes);
  };
  const take = (piece: Uint8Array): Promise<void> | undefined => {
    pieces.push(piece);
    size += piece.length;
    return size >= pieceBytes ? flush() : undefined;
  };
  try {
    for (const entry of entries) {
      await take(packedHeader(tarEntryOf(entry)));
      if (entry.kind === 'file') {
        for await (const piece of feed.take(entry.size)) await take(piece);
        await take(tarPadding(entry.size));
      }
      await pauseTurn();
    }
    await take(tarEnd);
    await flush();
  } finally {
    await feed.end();
  }
}

const pieceBytes = 256 * 1024;

/** Reads a stream of pieces as sections of a given number of bytes. */
class Feed {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();

  constructor(content: AsyncIterable<Uint8Array>) {
    this.#pieces = content[Symbol.asyncIterator]();
  }

  async *take(size: number): AsyncGenerator<Uint8Array> {
    let left = size;
    while (left > 0) {
      if (this.#rest.length === 0) {
        const next = await this.#pieces.next();
        if (next.done)
          throw new Error('the content of the build context is shorter than its list says');
        this.#rest = next.value;
      }
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      if (piece.length > 0) yield piece;
    }
  }

  async end(): Promise<void> {
    await this.#pieces.return?.();
  }
}
