import { type FileHandle, open } from 'node:fs/promises';
import { zstdDecompressSync } from 'node:zlib';
import { cacheOfBytes } from '../../../foundation/bounded-cache.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import { DamagedListing } from './byte-codec.ts';

/** A file of compressed pages. */
export interface PagedFile extends AsyncDisposable {
  /** Bytes of the file. */
  readonly size: number;
  /** Returns bytes as they are in the file. */
  bytes(start: number, length: number): Promise<Buffer>;
  /** Returns a page, unpacked, and keeps it for others. */
  page(start: number, end: number): Promise<Buffer>;
  /**
   * Yields pages that follow each other, unpacked, and keeps none of them.
   *
   * @param places where each page begins, and where the last one ends
   */
  each(places: readonly number[]): AsyncGenerator<Buffer, void>;
}

/** Bytes of a page, unpacked: it contains 128 names and links of at most 4 KiB, and some numbers. */
const largestPage = 2 * 1024 * 1024;
const largestSpan = 512 * 1024;

/**
 * Opens files of pages. All files share one memory, and only a few pages are read at once: what the pages of many viewers
 * take does not grow with their number.
 */
export class PageReader {
  readonly #kept: ReturnType<typeof cacheOfBytes<string, Buffer>>;
  readonly #turns = new Semaphore({ limit: 8 });

  /** @param keptBytes bytes of the unpacked pages that are kept for all files */
  constructor(keptBytes: number) {
    this.#kept = cacheOfBytes(keptBytes, (page, key) => page.length + key.length);
  }

  /** Throws the error of the system for a file that cannot be opened. */
  async open(path: string): Promise<PagedFile> {
    const handle = await open(path, 'r');
    try {
      const { size, ino, birthtimeMs } = await handle.stat();
      return this.#opened(handle, size, `${path} ${ino} ${birthtimeMs}`);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  #opened(handle: FileHandle, size: number, id: string): PagedFile {
    const bytes = (start: number, length: number) => readAt(handle, start, length);
    return {
      size,
      bytes,

      page: async (start, end) => {
        const key = `${id} ${start}`;
        const kept = this.#kept.get(key);
        if (kept) return kept;
        const read = await this.#turns.run(async () => unpack(await bytes(start, end - start)));
        const page = withoutRest(read);
        this.#kept.set(key, page);
        return page;
      },

      async *each(places) {
        for (let first = 0; first < places.length - 1; ) {
          const start = places[first] ?? 0;
          let last = first + 1;
          while (last < places.length - 1 && (places[last + 1] ?? 0) - start <= largestSpan)
            last += 1;
          const span = await bytes(start, (places[last] ?? start) - start);
          for (; first < last; first += 1) {
            const [from = 0, to = 0] = places.slice(first, first + 2);
            yield unpack(span.subarray(from - start, to - start));
            await pauseTurn();
          }
        }
      },

      [Symbol.asyncDispose]: () => handle.close(),
    };
  }
}

/**
 * Unpacks bytes of a listing. Throws {@link DamagedListing} for damaged ones.
 *
 * @param most bytes of the result
 */
export function unpack(packed: Buffer, most = largestPage): Buffer {
  try {
    return zstdDecompressSync(packed, { maxOutputLength: most });
  } catch (error) {
    throw new DamagedListing({ cause: error });
  }
}

/** Returns the bytes without the rest of a much larger buffer behind them. */
function withoutRest(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength < 2 * bytes.length) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  if (length < 0) throw new DamagedListing();
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, position);
  if (bytesRead !== length) throw new DamagedListing();
  return buffer;
}
