type ReadRange = (start: number, end: number) => AsyncIterable<Uint8Array>;

const windowBytes = 1024 * 1024;
/** A builder requests files in their order, a few at a time. */
const mostWindows = 4;
/** Larger ranges are read alone. */
const smallBytes = 64 * 1024;

/**
 * Returns a function that reads ranges as `read` does, and keeps what surrounds a small one: a build context can have
 * very many small files, and opening its content for each of them takes longer than everything else.
 *
 * @param size bytes of the whole content
 */
export function readAhead(read: ReadRange, size: number): ReadRange {
  const windows = new Map<number, Promise<Buffer>>();

  const windowAt = (index: number): Promise<Buffer> => {
    const known = windows.get(index);
    const window = known ?? whole(read(index * windowBytes, endOf(index)));
    // The last one used is the last one removed.
    windows.delete(index);
    windows.set(index, window);
    window.catch(() => windows.get(index) === window && windows.delete(index));
    const [oldest] = windows.keys();
    if (windows.size > mostWindows && oldest !== undefined) windows.delete(oldest);
    return window;
  };
  const endOf = (index: number) => Math.min(size, (index + 1) * windowBytes) - 1;

  async function* readSmall(start: number, end: number): AsyncGenerator<Uint8Array> {
    for (let from = start; from <= end; ) {
      const index = Math.floor(from / windowBytes);
      const to = Math.min(end, endOf(index));
      const base = index * windowBytes;
      yield (await windowAt(index)).subarray(from - base, to - base + 1);
      from = to + 1;
    }
  }

  return (start, end) =>
    end - start < smallBytes && end < size ? readSmall(start, end) : read(start, end);
}

async function whole(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece);
  return Buffer.concat(parts);
}
