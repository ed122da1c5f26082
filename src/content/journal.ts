import { execFile } from 'node:child_process';
import { type FileHandle, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Digest, digestOf, isDigest, splitDigest } from '../oci/digest.ts';
import { sharedFlush } from '../shared-flush.ts';
import { syncDirectory } from '../sync-directory.ts';

/**
 * Keeps small documents safe until the disk has their own files. A file for each would be brought to the disk
 * four times a request; here all that come at once are appended to one file, which is brought there once. When
 * that file is large, the whole file system is synced in the background and the file is removed.
 */
export interface Journal {
  /** Resolves when the document would survive a power failure. Its own file must be in its place before. */
  add(digest: Digest, bytes: Buffer): Promise<void>;
  /** Resolves when all documents that were added before would survive a power failure. */
  settle(): Promise<void>;
  /** Closes it; what is in it is restored by the next start. */
  close(): Promise<void>;
}

export interface JournalDeps {
  /** Makes sure that the file of a document is in its place, and whole. */
  readonly restore: (digest: Digest, bytes: Buffer) => Promise<void>;
  /** Brings the file of one document to the disk; for where all files cannot be synced at once. */
  readonly sync: (digest: Digest) => Promise<void>;
}

interface Segment {
  readonly path: string;
  readonly file: FileHandle;
  readonly digests: Digest[];
  size: number;
}

interface Entry {
  readonly digest: Digest;
  readonly bytes: Buffer;
}

const segmentBytes = 16 * 1024 * 1024;
// Writers wait for the disk beyond that.
const mostBytes = 4 * segmentBytes;
const restoredAtOnce = 32;
const run = promisify(execFile);

/** Opens the journal in a directory; what the last process left in it is restored first. */
export async function openJournal(
  directory: string,
  { restore, sync }: JournalDeps,
): Promise<Journal> {
  const syncAll = async (digests: readonly Digest[]): Promise<void> => {
    try {
      await run('sync', ['--file-system', directory]);
    } catch {
      // No such program, or one that cannot do that.
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
  let waiting: Entry[] = [];
  const pending = new Set<Promise<void>>();

  /** Does in the background what lets go of some files; where it fails, the next start does it. */
  const emptyOut = (work: () => Promise<void>): void => {
    const running = work()
      .catch(() => {})
      .finally(() => {
        emptying = undefined;
      });
    emptying = running;
  };
  if (left.length > 0) {
    emptyOut(async () => {
      if (restored.length > 0) await syncAll(restored);
      for (const path of left) await rm(path);
    });
  }

  const openSegment = async (): Promise<Segment> => {
    const path = join(directory, `${Date.now()}-${++count}`);
    const file = await open(path, 'wx', 0o600);
    await syncDirectory(directory);
    return { path, file, digests: [], size: 0 };
  };
  const empty = async ({ path, file, digests }: Segment): Promise<void> => {
    await syncAll(digests);
    await file.close();
    await rm(path);
  };
  const flush = sharedFlush(async () => {
    // Before anything is waited for: who comes later waits for the next flush.
    const entries = waiting;
    waiting = [];
    if (entries.length === 0) return;
    if (current && current.size >= mostBytes) await emptying;
    if (current && current.size >= segmentBytes && !emptying) {
      const full = current;
      current = undefined;
      emptyOut(() => empty(full));
    }
    current ??= await openSegment();
    const parts = entries.flatMap(({ digest, bytes }) => [headOf(digest, bytes), bytes]);
    const block = Buffer.concat(parts);
    const segment = current;
    try {
      await segment.file.appendFile(block);
      await segment.file.datasync();
    } catch (error) {
      // What follows a record that is cut short is not read again: the next ones go into another file.
      current = undefined;
      await segment.file.close();
      throw error;
    }
    segment.size += block.length;
    for (const { digest } of entries) segment.digests.push(digest);
  });

  return {
    add(digest, bytes) {
      waiting.push({ digest, bytes });
      const added = flush().finally(() => pending.delete(added));
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

/** The documents up to the first that is not whole: what follows was not acknowledged. */
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
