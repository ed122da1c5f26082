import { randomUUID } from 'node:crypto';
import { rmSync, statSync, utimesSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Digest, type DigestAlgorithm, digestOf, splitDigest } from '../../oci/digest.ts';
import { type DiskSpace, unlimitedSpace } from '../directory/disk-space.ts';
import { SlabPool } from './buffers.ts';
import type { ByteSource } from './byte-source.ts';
import { createChecks, type Proof } from './checks.ts';
import { createDiskSync, type DiskSync } from './disk-sync.ts';
import { type Draft, type Ingest, startIngest } from './ingest.ts';
import { openJournal } from './journal.ts';
import { type LocalFile, type ScratchFile, scratchFile } from './scratch-file.ts';

/** Content by digest. What is in it is whole: it was verified before it got its name. */
export interface ContentStore {
  /** Size in bytes, undefined when it is not here. */
  size(digest: Digest): Promise<number | undefined>;
  /** All bytes of a small document, undefined when it is not here. */
  read(digest: Digest): Promise<Buffer | undefined>;
  /**
   * The bytes from `start` to `end`, both included; the caller reads to the end or destroys the source. Damaged
   * content is never read to its end: `read` rejects, and the content is set aside.
   */
  open(digest: Digest, start: number, end: number): ByteSource;
  /** Reads all of it, unless that was done lately; sets aside what is damaged. */
  prove(digest: Digest): Promise<Proof>;
  /** The same at the caller's pace: `pace` is called with each number of bytes read. */
  scrub(digest: Digest, pace: (bytes: number) => Promise<void>): Promise<Proof>;
  /** Reads all of it, whatever is known of it, and changes nothing. */
  examine(digest: Digest): Promise<Proof>;
  /** True when it was read and found right lately. */
  isFresh(digest: Digest): boolean;
  /**
   * Returns a file with the content, checked, for a program that reads files; undefined when the content is not here.
   * A store far away fetches it; reading by {@link open} costs less.
   */
  lease(digest: Digest): Promise<LocalFile | undefined>;
  /** Keeps a small document whose digest the caller has verified. Resolves when it would survive a power failure. */
  write(digest: Digest, bytes: Buffer): Promise<void>;
  /** Resolves when everything that is visible here would survive a power failure. */
  settle(): Promise<void>;
  /** Ends the ownership of the store; nothing is written to it after that. */
  close(): Promise<void>;
  /**
   * Begins to take in content of which the digest is known or will be told at the end.
   *
   * @param expected bytes, where they are known: without the space for them nothing begins
   */
  ingest(algorithm?: DigestAlgorithm, expected?: number): Promise<Ingest>;
  /**
   * Returns an empty file for bytes that are not content, such as what a program is about to read.
   *
   * @param expected bytes, where they are known: without the space for them nothing begins
   */
  scratch(expected?: number): Promise<ScratchFile>;
  /**
   * True when it is here; it then counts as used now, so that no sweep takes it before what needs it
   * is written down. Synchronous, to be asked inside a transaction.
   */
  claim(digest: Digest): boolean;
  /**
   * Removes it unless it was used since the moment (ms since the epoch); true when it is gone.
   * Readers that have it open read on. Synchronous, see {@link claim}.
   */
  removeUnused(digest: Digest, since: number): boolean;
  /**
   * Everything here; for sweeps, not for requests.
   * @param begin where to begin, as a part (0 to 1) of the whole
   */
  list(begin?: number): AsyncIterable<KeptContent>;
  /** Removes what was on its way in and not written to since the moment; returns how many files. */
  removeLeftovers(since: number): Promise<number>;
  /** Removes damaged content that was set aside before the moment; returns how many files. */
  removeDamaged(before: number): Promise<number>;
}

export interface KeptContent {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /** ms since the epoch. */
  readonly usedAt: number;
}

export interface ContentStoreOptions {
  /** The server, of which there is one: a command leaves what is under way alone. */
  readonly isOwner?: boolean;
  /** Changes nothing: damaged content stays where it is. For backups, which may be on a disk that cannot be written to. */
  readonly isReadOnly?: boolean;
  /** The last process ended amidst its work: what it has named may not be on the disk yet. */
  readonly wasKilled?: boolean;
  /** Buffers for what is read. Default: a pool for this store alone. */
  readonly slabs?: SlabPool;
  /** How long a check of content counts (ms). Default: a day. */
  readonly trustMs?: number;
  /** Called when content was found damaged and set aside. */
  readonly onDamaged?: (digest: Digest) => void;
  /** Asked before anything is written; unlimited unless given. */
  readonly space?: DiskSpace;
}

const dayMs = 86_400_000;

/** Opens, and creates where absent, the store below `root`. */
export async function openContentStore(
  root: string,
  {
    isOwner = false,
    isReadOnly = false,
    wasKilled = false,
    space = unlimitedSpace,
    slabs = new SlabPool(),
    trustMs = dayMs,
    onDamaged,
  }: ContentStoreOptions = {},
): Promise<ContentStore> {
  const damaged = join(root, 'damaged');
  const temporary = join(root, 'tmp');
  if (!isReadOnly) await mkdir(temporary, { recursive: true, mode: 0o700 });
  const pathOf = (digest: Digest) => {
    const { algorithm, hex } = splitDigest(digest);
    return join(root, 'blobs', algorithm, hex.slice(0, 2), hex);
  };
  const sync = createDiskSync();
  const openDraft = async (): Promise<Draft> => {
    const path = join(temporary, randomUUID());
    try {
      return { path, file: await open(path, 'wx', 0o600) };
    } catch (error) {
      absent(error as NodeJS.ErrnoException);
      // Not what is above it: where that is gone, it is the disk that is.
      await mkdir(temporary, { mode: 0o700 }).catch(unlessThere);
      return { path, file: await open(path, 'wx', 0o600) };
    }
  };
  const adopt = async (from: string, digest: Digest) => {
    const path = pathOf(digest);
    const folder = dirname(path);
    await put(from, path);
    // Its digest was computed from the bytes that were written.
    checks.note(digest);
    await sync.directory(folder);
  };
  const put = async (from: string, path: string) => {
    try {
      await rename(from, path);
    } catch (error) {
      absent(error as NodeJS.ErrnoException);
      const folder = dirname(path);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await Promise.all([root, join(root, 'blobs'), dirname(folder)].map(sync.directory));
      await rename(from, path);
    }
  };
  /** Puts a document in its place, which a power failure may undo. */
  const place = async (digest: Digest, bytes: Buffer): Promise<void> => {
    const { path, file } = await openDraft();
    try {
      await file.writeFile(bytes);
      await file.close();
      await put(path, pathOf(digest));
      checks.note(digest);
    } catch (error) {
      await file.close().catch(() => {});
      await rm(path, { force: true });
      throw error;
    }
  };
  const readWhole = async (digest: Digest): Promise<Buffer | undefined> => {
    const bytes = await readFile(pathOf(digest)).catch(absent);
    // A disk can rot; a document is small enough to make sure each time it comes from there.
    return bytes && digestOf(bytes, splitDigest(digest).algorithm) === digest ? bytes : undefined;
  };
  const syncOne = async (digest: Digest): Promise<void> => {
    const file = await open(pathOf(digest), 'r').catch(absent);
    if (!file) return;
    try {
      await sync.file(file);
    } finally {
      await file.close();
    }
    await sync.directory(dirname(pathOf(digest)));
  };
  const restore = async (digest: Digest, bytes: Buffer): Promise<void> => {
    if (!(await readWhole(digest))) await place(digest, bytes);
  };
  /** Counts it as used; false when it is not here. */
  const touch = (digest: Digest): boolean => {
    const now = new Date();
    return unlessAbsent(() => utimesSync(pathOf(digest), now, now));
  };
  const writing = new Map<Digest, Promise<void>>();
  const keepDocument = async (digest: Digest, bytes: Buffer): Promise<void> => {
    // What is there may be safe already, and a new file is not yet: it does not take its place.
    const isNew = !touch(digest) || !(await readWhole(digest));
    if (isNew) await place(digest, bytes);
    try {
      await (journal ? journal.add(digest, bytes) : syncOne(digest));
    } catch (error) {
      // Nobody may come to rely on it.
      if (isNew) await rm(pathOf(digest), { force: true });
      throw error;
    }
  };
  const unsure = wasKilled ? syncAll(root, sync) : undefined;
  unsure?.catch(() => {});

  /** Keeps the bytes for inspection. Readers that have the file open continue, but do not get its last chunk. */
  const setAside = async (digest: Digest, file: number) => {
    if (isReadOnly) return;
    const path = pathOf(digest);
    // Meanwhile somebody may have put the right bytes in its place.
    if ((await stat(path).catch(absent))?.ino !== file) return;
    await mkdir(damaged, { recursive: true, mode: 0o700 });
    const now = new Date();
    await utimes(path, now, now);
    await rename(path, join(damaged, digest.replace(':', '-')));
    onDamaged?.(digest);
  };
  const checks = createChecks({ pathOf, setAside, slabs, trustMs });
  const journal = isOwner
    ? await openJournal(join(root, 'journal'), { restore, sync: syncOne })
    : undefined;

  return {
    async size(digest) {
      const found = await stat(pathOf(digest)).catch(absent);
      return found?.size;
    },

    async read(digest) {
      const bytes = await readWhole(digest);
      if (!bytes) await checks.prove(digest, true);
      return bytes;
    },

    open: checks.source,
    prove: digest => checks.prove(digest),
    scrub: checks.scrub,
    examine: checks.examine,
    isFresh: checks.isFresh,

    async lease(digest) {
      if ((await checks.prove(digest)) !== 'right') return undefined;
      return { path: pathOf(digest), async [Symbol.asyncDispose]() {} };
    },

    async write(digest, bytes) {
      space.take(bytes.length);
      let written = writing.get(digest);
      if (!written) {
        written = keepDocument(digest, bytes).finally(() => writing.delete(digest));
        writing.set(digest, written);
      }
      await written;
    },

    async close() {
      await journal?.close();
    },

    async ingest(algorithm = 'sha256', expected = 0) {
      const promise = space.promise(expected);
      try {
        const home = { pathOf, adopt, space: promise, slabs, sync: sync.file };
        return startIngest(await openDraft(), algorithm, home);
      } catch (error) {
        promise.end();
        throw error;
      }
    },

    async scratch(expected = 0) {
      const promise = space.promise(expected);
      try {
        return scratchFile(await openDraft(), promise);
      } catch (error) {
        promise.end();
        throw error;
      }
    },

    async settle() {
      await unsure;
      await sync.settle();
      await journal?.settle();
    },

    claim: touch,

    removeUnused(digest, since) {
      const path = pathOf(digest);
      const found = statSync(path, { throwIfNoEntry: false });
      if (found && found.mtimeMs >= since) return false;
      rmSync(path, { force: true });
      return true;
    },

    async *list(begin = 0) {
      for (const algorithm of ['sha256', 'sha512'] as const) {
        const base = join(root, 'blobs', algorithm);
        const shards = (await readdir(base).catch(absent)) ?? [];
        const first = Math.floor(begin * shards.length);
        for (const shard of [...shards.slice(first), ...shards.slice(0, first)]) {
          for (const hex of await readdir(join(base, shard))) {
            const digest = `${algorithm}:${hex}` as Digest;
            const found = await stat(pathOf(digest)).catch(absent);
            if (found) yield { digest, size: found.size, usedAt: found.mtimeMs };
          }
        }
      }
    },

    removeLeftovers: since => removeOlder(temporary, since),
    removeDamaged: before => removeOlder(damaged, before),
  };
}

/** Removes the files of a folder that were last written before the moment; returns how many. */
async function removeOlder(folder: string, moment: number): Promise<number> {
  let removed = 0;
  for (const name of (await readdir(folder).catch(absent)) ?? []) {
    const path = join(folder, name);
    const found = await stat(path).catch(absent);
    if (!found || found.mtimeMs >= moment) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}

function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}

function unlessAbsent(work: () => void): boolean {
  try {
    work();
    return true;
  } catch (error) {
    absent(error as NodeJS.ErrnoException);
    return false;
  }
}

/** Brings the names of all content to the disk; its bytes were there before it was named. */
async function syncAll(root: string, sync: DiskSync): Promise<void> {
  const algorithms = await readdir(join(root, 'blobs')).catch(absent);
  for (const algorithm of algorithms ?? []) {
    const base = join(root, 'blobs', algorithm);
    const shards = await readdir(base);
    await Promise.all([base, ...shards.map(shard => join(base, shard))].map(sync.directory));
  }
  await Promise.all([root, ...(algorithms ? [join(root, 'blobs')] : [])].map(sync.directory));
}
