import { type FileHandle, open } from 'node:fs/promises';
import { zstdDecompressSync } from 'node:zlib';
import { cacheOfBytes } from '../../../foundation/bounded-cache.ts';
import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import type { LayerChange } from '../comparing/merge-layers.ts';
import { DamagedListing, RecordReader } from './byte-codec.ts';
import {
  nodesInPage,
  numberBytes,
  numbersInPage,
  readNode,
  type StoredNode,
  sizeToSort,
  type TreeIndex,
  treeMagic,
} from './tree-file.ts';

export type TreeSort = 'size' | 'name';

/** Which nodes are shown, and in which order. */
interface TreeWindow {
  readonly sort: TreeSort;
  readonly offset: number;
  readonly limit: number;
}

interface TreeSearch {
  /** Part of a name, in small letters; empty for all. */
  readonly text: string;
  readonly change: LayerChange | undefined;
}

interface FoundNodes {
  readonly nodes: readonly StoredNode[];
  /** How many there are. */
  readonly count: number;
  /** How many of them can be asked for. */
  readonly shown: number;
}

/** The tree of a layer on disk. Every method throws {@link DamagedListing} for a damaged file. */
export interface OpenedTree extends AsyncDisposable {
  readonly index: TreeIndex;
  readonly root: StoredNode;
  node(number: number): Promise<StoredNode>;
  /** Returns nodes directly below a directory. */
  children(directory: StoredNode, window: TreeWindow): Promise<readonly StoredNode[]>;
  /** Returns the node of a path; undefined if there is none. */
  find(names: readonly string[]): Promise<StoredNode | undefined>;
  /** Returns the names of a node and of the directories above it. */
  pathOf(node: StoredNode): Promise<readonly string[]>;
  /**
   * Finds nodes of the whole tree. Throws a {@link Fault} (503) when too many searches wait, and the reason of the
   * signal when it is aborted.
   */
  search(search: TreeSearch, window: TreeWindow, signal?: AbortSignal): Promise<FoundNodes>;
}

/** Opens the tree in a file. */
export type OpenTree = (path: string) => Promise<OpenedTree>;

const endBytes = 4 + treeMagic.length;
const largestIndex = 8 * 1024 * 1024;
const keptBytes = 24 * 1024 * 1024;
// The rest of a search is not sorted.
const mostFound = 2000;
const mostSorted = 255;
// A search takes some MiB, and a good part of a second of processor time for a large layer.
const searchesAtOnce = 4;
const mostWaiting = 100;

/** Returns a function that opens trees, which share their memory. It throws {@link DamagedListing} for a damaged file. */
export function createOpenTree(): OpenTree {
  const reader = new PageReader(keptBytes);
  const searches = new Semaphore({ limit: searchesAtOnce, mostWaiting, refusal: tooManySearches });
  return async path => {
    const file = await reader.open(path);
    try {
      const tree = createTree(file, await readIndex(file), searches);
      return { ...tree, root: await tree.node(0) };
    } catch (error) {
      await file[Symbol.asyncDispose]();
      throw error;
    }
  };
}

function createTree(
  file: PagedFile,
  index: TreeIndex,
  searches: Semaphore,
): Omit<OpenedTree, 'root'> {
  const page = (kind: 'nodePages' | 'orderPages', number: number): Promise<Buffer> => {
    const [start, end] = index[kind].slice(number, number + 2);
    if (start === undefined || end === undefined) throw new DamagedListing();
    return file.page(start, end);
  };
  const node = async (number: number): Promise<StoredNode> => {
    if (number >= index.count) throw new DamagedListing();
    const first = number - (number % nodesInPage);
    return nodeIn(await page('nodePages', first / nodesInPage), first, number, index.count);
  };
  const inOrder = async (position: number): Promise<number> => {
    const at = position % numbersInPage;
    const bytes = await page('orderPages', (position - at) / numbersInPage);
    if ((at + 1) * numberBytes > bytes.length) throw new DamagedListing();
    return bytes.readUInt32LE(at * numberBytes);
  };
  const childNamed = async (
    { firstChild, childCount }: StoredNode,
    name: string,
  ): Promise<StoredNode | undefined> => {
    let low = firstChild;
    let high = firstChild + childCount;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const found = await node(middle);
      if (found.name === name) return found;
      if (found.name < name) low = middle + 1;
      else high = middle;
    }
    return undefined;
  };

  return {
    index,
    node,

    async children({ firstChild, childCount }, { sort, offset, limit }) {
      const nodes: StoredNode[] = [];
      for (let at = offset; at < Math.min(childCount, offset + limit); at += 1) {
        const place = firstChild + at;
        nodes.push(await node(sort === 'size' ? await inOrder(place) : place));
        await pauseTurn();
      }
      return nodes;
    },

    async find(names) {
      let found: StoredNode | undefined = await node(0);
      for (const name of names) {
        found = found && (await childNamed(found, name));
        await pauseTurn();
      }
      return found;
    },

    async pathOf(start) {
      const names: string[] = [];
      for (let at = start; at.number !== 0; at = await node(at.parent)) {
        // A parent always has a smaller number.
        if (at.parent >= at.number) throw new DamagedListing();
        names.push(at.name);
      }
      await pauseTurn();
      return names.reverse();
    },

    async search(search, { sort, offset, limit }, signal) {
      let found: Found[] = [];
      let count = 0;
      await searches.run(async () => {
        for await (const one of findMatches(file, index, search, signal)) {
          count += 1;
          found.push(one);
          if (found.length >= 4 * mostFound) found = bestFound(found, sort);
        }
      });
      const nodes: StoredNode[] = [];
      for (const { number } of bestFound(found, sort).slice(offset, offset + limit)) {
        nodes.push(await node(number));
      }
      return { nodes, count, shown: Math.min(count, mostFound) };
    },

    [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
  };
}

interface Found {
  readonly number: number;
  readonly name: string;
  readonly size: number;
}

function bestFound(found: readonly Found[], sort: TreeSort): Found[] {
  const bySize = (one: Found, other: Found) => other.size - one.size || one.number - other.number;
  const byName = (one: Found, other: Found) =>
    one.name < other.name ? -1 : one.name > other.name ? 1 : one.number - other.number;
  return found.toSorted(sort === 'size' ? bySize : byName).slice(0, mostFound);
}

/** Yields the nodes that a search finds, and gives other work its turn in between. */
async function* findMatches(
  file: PagedFile,
  { nodePages, count }: TreeIndex,
  { text, change }: TreeSearch,
  signal: AbortSignal | undefined,
): AsyncGenerator<Found> {
  let first = 0;
  signal?.throwIfAborted();
  for await (const bytes of file.each(nodePages)) {
    signal?.throwIfAborted();
    for (let number = first; number < Math.min(count, first + nodesInPage); number += 1) {
      const node = nodeIn(bytes, first, number, count);
      if (number === 0 || (change !== undefined && node.change !== change)) continue;
      // A directory that was there already matches by its name only.
      if (text === '' && node.isImplicit) continue;
      if (!textOf(node.name).includes(text)) continue;
      yield { number, name: shortName(node.name), size: sizeToSort(node) };
    }
    first += nodesInPage;
  }
}

/** Returns the start of a name, by which it is sorted; nodes of one directory are in order already. */
function shortName(name: string): string {
  if (name.length <= mostSorted) return name;
  // A part of a string would keep the whole string in memory.
  return Buffer.from(name.slice(0, mostSorted), 'latin1').toString('latin1');
}

function textOf(name: string): string {
  return Buffer.from(name, 'latin1').toString().toLowerCase();
}

function nodeIn(page: Buffer, first: number, number: number, count: number): StoredNode {
  const at = (number - first) * 4;
  const inPage = Math.min(nodesInPage, count - first);
  if (at + 4 > page.length) throw new DamagedListing();
  return readNode(new RecordReader(page, inPage * 4 + page.readUInt32LE(at)), number);
}

async function readIndex(file: PagedFile): Promise<TreeIndex> {
  if (file.size < endBytes) throw new DamagedListing();
  const end = await file.bytes(file.size - endBytes, endBytes);
  const length = end.readUInt32LE();
  if (!end.subarray(4).equals(treeMagic) || length > file.size - endBytes)
    throw new DamagedListing();
  const packed = await file.bytes(file.size - endBytes - length, length);
  return JSON.parse(unpackPage(packed, largestIndex).toString()) as TreeIndex;
}

function tooManySearches(): Fault {
  return new Fault('unavailable', 'The server is searching many layers: try again in a minute', {
    phase: 'limit',
    retryAfterSeconds: 60,
  });
}

/** A file of compressed pages. */
interface PagedFile extends AsyncDisposable {
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
class PageReader {
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
        const read = await this.#turns.run(async () => unpackPage(await bytes(start, end - start)));
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
            yield unpackPage(span.subarray(from - start, to - start));
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
function unpackPage(packed: Buffer, most = largestPage): Buffer {
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
