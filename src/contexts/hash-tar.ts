import { type Pack, pack } from 'tar-stream';
import { type ContextEntry, tarHeaderOf } from './context-entry.ts';

/**
 * Hands the tar file of a build context to `update`, piece by piece. The same entries give the same bytes as a context
 * that is packed into a request, so both get the same build key.
 *
 * @param content the content of all files, one after the other
 */
export async function hashTar(
  entries: Iterable<ContextEntry>,
  content: AsyncIterable<Uint8Array>,
  update: (piece: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const tar = pack();
  const feed = new Feed(content);
  const written = writeAll(tar, entries, feed);
  // It fails too when the loop below ends early, which destroys the tar stream.
  written.catch(error => tar.destroy(error as Error));
  try {
    for await (const piece of tar) await update(piece as Buffer);
    await written;
  } finally {
    await feed.end();
  }
}

async function writeAll(tar: Pack, entries: Iterable<ContextEntry>, feed: Feed): Promise<void> {
  for (const entry of entries) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    const sink = tar.entry(tarHeaderOf(entry), done);
    if (entry.kind === 'file') {
      for await (const piece of feed.take(entry.size)) {
        if (!sink.write(piece)) await Promise.race([promise, drained(sink)]);
      }
      sink.end(undefined);
    }
    await promise;
  }
  tar.finalize();
}

function drained(sink: NodeJS.WritableStream): Promise<void> {
  return new Promise(resolve => void sink.once('drain', resolve));
}

/** Bytes that come in pieces and are taken in other pieces. */
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
        if (next.done) throw new Error('the content of the build context is shorter than its list');
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
