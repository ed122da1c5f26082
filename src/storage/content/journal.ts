import { execFile } from 'node:child_process';
import { type FileHandle, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type Digest, digestOf, isDigest, splitDigest } from '../../oci/digest.ts';
import { syncDirectory } from '../directory/index.ts';

/**
 * Keeps small documents safe until their own files are on the disk. Separate files would need four disk flushes a
 * request. Instead, all documents that come at once are appended to one file, which is flushed once. When that file
 * is large, the whole file system is synced in the background and the file is removed.
 */
export interface Journal {
  /**
   * Makes a document survive a power failure, then calls `place`, which puts its own file in its place. In this order, because
   * a file with a name could otherwise reach the disk without its bytes. Where the journal cannot be written, the file
   * itself is brought to the disk. Rejects when both fail, or when `place` does.
   */
  add(digest: Digest, bytes: Buffer, place: () => Promise<void>): Promise<void>;
  /** Resolves when all documents that were added before would survive a power failure. */
  settle(): Promise<void>;
  /** Closes the journal; the next start restores its documents. */
  close(): Promise<void>;
}

export interface JournalDeps {
  /** Makes sure that the file of a document is in its place and complete. */
  readonly restore: (digest: Digest, bytes: Buffer) => Promise<void>;
  /** Brings the file of one document to the disk; used where all files cannot be synced at once. */
  readonly sync: (digest: Digest) => Promise<void>;
}

interface Segment {
  readonly path: string;
  readonly file: FileHandle;
  readonly digests: Digest[];
  /** Documents whose own files are not in their places yet. */
  readonly placing: Set<Promise<void>>;
  /** Bytes up to the end of the last record that is on the disk. */
  size: number;
}

type Retired = Pick<Segment, 'path' | 'digests' | 'placing'>;

interface Entry {
  readonly digest: Digest;
  readonly bytes: Buffer;
}

interface Waiting extends Entry {
  readonly place: () => Promise<void>;
  /** Settles as `place` does, once the document is on the disk. */
  readonly placed: PromiseWithResolvers<void>;
}

const segmentBytes = 16 * 1024 * 1024;
// Above this size, writers wait for the disk.
const mostBytes = 4 * segmentBytes;
const restoredAtOnce = 32;
// Time between attempts to release files, after one has failed.
const retryMs = 30_000;
const run = promisify(execFile);

/** Opens the journal in a directory, after it has restored the documents that the last process left there. */
export async function openJournal(
  directory: string,
  { restore, sync }: JournalDeps,
): Promise<Journal> {
  const syncAll = async (digests: readonly Digest[]): Promise<void> => {
    try {
      await run('sync', ['--file-system', directory]);
    } catch {
      // The program does not exist, or cannot sync a file system.
      for (const digest of digests) await sync(digest);
    }
  };

  await mkdir(directory, { recursive: true, mode: 0o700 });
  const left = (await readdir(directory)).map(name => join(directory, name)).sort();
  const restored: Digest[] = [];
  for (const path of left) {
    const entries = [...entriesOf(await readFile(path))];
    while (entries.length > 0) {
      const some = entries.splice(0, restoredAtOnce);
      await Promise.all(some.map(({ digest, bytes }) => restore(digest, bytes)));
      for (const { digest } of some) restored.push(digest);
    }
  }

  let count = 0;
  let current: Segment | undefined;
  let emptying: Promise<void> | undefined;
  let retryAt = 0;
  /** Files that are not appended to any more, and the documents whose own files must be on the disk before they go. */
  const retired: Retired[] = left.map(path => ({ path, digests: [], placing: new Set() }));
  let waiting: Waiting[] = [];
  const pending = new Set<Promise<void>>();

  const empty = async (): Promise<void> => {
    const some = [...retired];
    await Promise.allSettled(some.flatMap(({ placing }) => [...placing]));
    const digests = some.flatMap(segment => segment.digests);
    if (digests.length > 0) await syncAll(digests);
    for (const segment of some) {
      await rm(segment.path, { force: true });
      retired.splice(retired.indexOf(segment), 1);
    }
  };
  /**
   * Releases the retired files in the background. A failed attempt is repeated later, at the latest by the next
   * start.
   */
  const emptyOut = (): void => {
    emptying = empty()
      .catch(() => {
        retryAt = performance.now() + retryMs;
      })
      .finally(() => {
        emptying = undefined;
      });
  };
  retired[0]?.digests.push(...restored);
  if (retired.length > 0) emptyOut();

  const openSegment = async (): Promise<Segment> => {
    const path = join(directory, `${Date.now()}-${++count}`);
    // Each record begins at the end, also after a truncation, which does not change the position in the file.
    const file = await open(path, 'ax', 0o600);
    try {
      await syncDirectory(directory);
    } catch (error) {
      retired.push({ path, digests: [], placing: new Set() });
      await file.close();
      throw error;
    }
    return { path, file, digests: [], placing: new Set(), size: 0 };
  };
  const retire = async (segment: Segment): Promise<void> => {
    current = undefined;
    retired.push(segment);
    await segment.file.close();
  };
  const append = async (segment: Segment, block: Buffer): Promise<void> => {
    try {
      await segment.file.appendFile(block);
    } catch (error) {
      // Records after a truncated one are not read at the next start.
      await segment.file.truncate(segment.size).catch(() => retire(segment));
      throw error;
    }
    try {
      await segment.file.datasync();
    } catch (error) {
      // The system does not say which bytes are on the disk, and forgets that it could not write the others.
      await retire(segment);
      throw error;
    }
  };
  const flushes = new SingleFlight<void>();
  const flush = async (): Promise<void> => {
    // Takes the entries before the first wait: later callers wait for the next flush.
    const entries = waiting;
    waiting = [];
    if (entries.length === 0) return;
    if (current && current.size >= mostBytes) await emptying;
    if (current && current.size >= segmentBytes && !emptying) {
      await retire(current);
      retryAt = 0;
    }
    if (retired.length > 0 && !emptying && performance.now() >= retryAt) emptyOut();
    current ??= await openSegment();
    const parts = entries.flatMap(({ digest, bytes }) => [headOf(digest, bytes), bytes]);
    const block = Buffer.concat(parts);
    const segment = current;
    await append(segment, block);
    segment.size += block.length;
    for (const { digest, place, placed } of entries) {
      segment.digests.push(digest);
      const { promise } = placed;
      segment.placing.add(promise);
      promise.catch(() => {}).finally(() => segment.placing.delete(promise));
      place().then(placed.resolve, placed.reject);
    }
  };

  return {
    add(digest, bytes, place) {
      const placed = Promise.withResolvers<void>();
      waiting.push({ digest, bytes, place, placed });
      const placeAndSync = async () => {
        await place();
        await sync(digest);
      };
      const added = flushes
        .runFresh(flush)
        .then(() => placed.promise, placeAndSync)
        .finally(() => pending.delete(added));
      pending.add(added);
      return added;
    },
    async settle() {
      if (pending.size > 0) await Promise.all(pending);
    },
    async close() {
      await emptying;
      await current?.file.close();
      current = undefined;
    },
  };
}

function headOf(digest: Digest, { length }: Buffer): Buffer {
  return Buffer.from(`${digest} ${length}\n`);
}

/** Returns the documents before the first incomplete one: anything after that was not acknowledged. */
function* entriesOf(text: Buffer): Generator<Entry> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const [digest = '', length = ''] = text.toString('latin1', at, end).split(' ');
    if (end < 0 || !isDigest(digest) || !/^\d{1,9}$/.test(length)) return;
    at = end + 1 + Number(length);
    const bytes = text.subarray(end + 1, at);
    if (digestOf(bytes, splitDigest(digest).algorithm) !== digest) return;
    yield { digest, bytes };
  }
}
