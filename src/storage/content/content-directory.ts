import { randomUUID } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm, stat, unlink, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { dayMs } from '../../foundation/telemetry/counted.ts';
import { type Digest, digestOf, splitDigest } from '../../oci/digest.ts';
import {
  createDiskSync,
  type DiskSpace,
  type DiskSync,
  type SpacePromise,
  unlimitedSpace,
} from '../directory/index.ts';
import { createChecks } from './checks.ts';
import {
  type ContentUses,
  createContentPresence,
  removedMeanwhile,
  withoutRows,
} from './content-presence.ts';
import { type ContentStore, scratchFile } from './content-store.ts';
import { fileSource, SlabPool } from './file-source.ts';
import { type Draft, type Home, type Ingest, resumeIngest, startIngest } from './ingest.ts';
import { openJournal } from './journal.ts';

export interface ContentDirectoryOptions {
  /** The rows of the content. Absent: the store has none, and nobody sweeps it. */
  readonly uses?: ContentUses;
  /** True for the server, which is the only one. A command leaves unfinished work alone. */
  readonly isOwner?: boolean;
  /** Changes nothing: damaged content stays where it is. For backups, which may be on a read-only disk. */
  readonly isReadOnly?: boolean;
  /** The last process ended during its work: content that it named may not be on the disk yet. */
  readonly wasKilled?: boolean;
  /** Buffers for reads. Default: a pool for this store alone. */
  readonly slabs?: SlabPool;
  /** How long a check of content counts (ms). Default: a day. */
  readonly trustMs?: number;
  /** Called when content was found damaged and set aside. */
  readonly onDamaged?: (digest: Digest) => void;
  /** Checks the free space before each write. Default: unlimited. */
  readonly space?: DiskSpace;
}

// Each reads and hashes all bytes so far.
const resumesAtOnce = 2;

/** Opens the content store in the directory `root`, and creates it where it is absent. */
export async function openContentDirectory(
  root: string,
  {
    uses = withoutRows,
    isOwner = false,
    isReadOnly = false,
    wasKilled = false,
    space = unlimitedSpace,
    slabs = new SlabPool(),
    trustMs = dayMs,
    onDamaged,
  }: ContentDirectoryOptions = {},
): Promise<ContentStore> {
  const damaged = join(root, 'damaged');
  const temporary = join(root, 'tmp');
  if (!isReadOnly) await mkdir(temporary, { recursive: true, mode: 0o700 });
  const pathOf = (digest: Digest) => {
    const { algorithm, hex } = splitDigest(digest);
    return join(root, 'blobs', algorithm, hex.slice(0, 2), hex);
  };
  const sync = createDiskSync();
  const resumes = new Semaphore({ limit: resumesAtOnce });
  const openDraft = async (): Promise<Draft> => {
    const path = join(temporary, randomUUID());
    try {
      return { path, file: await open(path, 'wx', 0o600) };
    } catch (error) {
      absent(error as NodeJS.ErrnoException);
      // Does not create the parent directory: when that is missing, its disk is not mounted.
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
  /** Puts a document in its place. A power failure may undo this. */
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
    // Disks can rot. A document is small enough to be checked at each read.
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
  const size = async (digest: Digest): Promise<number | undefined> =>
    (await stat(pathOf(digest)).catch(absent))?.size;
  const remove = async (digest: Digest): Promise<boolean> => {
    try {
      await unlink(pathOf(digest));
      return true;
    } catch (error) {
      absent(error as NodeJS.ErrnoException);
      return false;
    }
  };
  const presence = createContentPresence(uses, { size, remove });
  const requireFile = async (digest: Digest): Promise<void> => {
    if ((await size(digest)) === undefined) throw removedMeanwhile(digest);
  };
  const writing = new SingleFlight<void>();
  const keepDocument = async (digest: Digest, bytes: Buffer): Promise<void> => {
    const arrive = await presence.enter(digest, bytes.length);
    // An existing file may be safe on the disk already, and a new file is not: the existing one stays.
    const isNew = !(await readWhole(digest));
    const put = async () => {
      if (isNew) await place(digest, bytes);
    };
    try {
      if (journal) await journal.add(digest, bytes, put);
      else {
        await put();
        await syncOne(digest);
      }
    } catch (error) {
      // Nothing must come to rely on it.
      if (isNew) await rm(pathOf(digest), { force: true });
      throw error;
    }
    await arrive();
  };
  const homeWith = (promise: SpacePromise): Home => ({
    pathOf,
    adopt,
    slabs,
    space: promise,
    enter: presence.enter,
    require: requireFile,
    sync: sync.file,
    keep: async file => void (await Promise.all([sync.file(file), sync.directory(temporary)])),
  });
  const unsure = wasKilled ? syncAll(root, sync) : undefined;
  unsure?.catch(() => {});

  /** Keeps the bytes for inspection. Readers that have the file open continue, but do not get its last chunk. */
  const setAside = async (digest: Digest, file: number) => {
    if (isReadOnly) return;
    const path = pathOf(digest);
    // Nothing can refer to it from now on. The file is removed even when the mark cannot be written.
    const isMarked = await uses.condemn(digest).catch(() => false);
    // Another process may have put the right bytes in its place in the meantime.
    if ((await stat(path).catch(absent))?.ino === file) {
      await mkdir(damaged, { recursive: true, mode: 0o700 });
      const now = new Date();
      await utimes(path, now, now);
      await rename(path, join(damaged, digest.replace(':', '-')));
      onDamaged?.(digest);
    }
    if (isMarked) await uses.forget(digest).catch(() => {});
  };
  const discardFile = async (digest: Digest, file: number) => {
    const isSame = async () => (await stat(pathOf(digest)).catch(absent))?.ino === file;
    await presence.remove(digest, async () => (await isSame()) && uses.condemn(digest));
  };
  const checks = createChecks<number>({
    async find(digest) {
      const found = await stat(pathOf(digest)).catch(absent);
      return found && { size: found.size, version: found.ino };
    },
    plain: (digest, start, end) =>
      fileSource({ open: () => open(pathOf(digest), 'r'), start, end, slabs }),
    setAside,
    trustMs,
  });
  const journal = isOwner
    ? await openJournal(join(root, 'journal'), { restore, sync: syncOne })
    : undefined;

  return {
    size,

    async read(digest) {
      const bytes = await readWhole(digest);
      if (!bytes) await checks.prove(digest, true);
      return bytes;
    },

    open: checks.source,
    prove: digest => checks.prove(digest),
    scrub: checks.scrub,
    hasLinks: false,
    link: async () => undefined,
    examine: checks.examine,
    isFresh: checks.isFresh,

    async lease(digest) {
      if ((await checks.prove(digest)) !== 'right') return undefined;
      return { path: pathOf(digest), async [Symbol.asyncDispose]() {} };
    },

    async write(digest, bytes) {
      space.take(bytes.length);
      await writing.run(() => keepDocument(digest, bytes), { key: digest });
    },

    async close() {
      await journal?.close();
    },

    async ingest(algorithm = 'sha256', expected = 0, isReserved = true) {
      const promise = space.promise(expected, isReserved);
      try {
        return startIngest(await openDraft(), algorithm, homeWith(promise));
      } catch (error) {
        promise.end();
        throw error;
      }
    },

    resume: kept =>
      resumes.run(async () => {
        const path = join(temporary, basename(kept.draft));
        const file = await open(path, 'r+').catch(absent);
        if (!file) return undefined;
        const promise = space.promise(0);
        let ingest: Ingest | undefined;
        try {
          ingest = await resumeIngest({ path, file }, kept, homeWith(promise));
          return ingest;
        } finally {
          if (!ingest) {
            promise.end();
            await file.close();
          }
        }
      }),

    async drop({ draft }) {
      await rm(join(temporary, basename(draft)), { force: true });
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

    claim: presence.claim,
    remove: presence.remove,
    discard: digest => presence.remove(digest, () => uses.condemn(digest)),
    discardDamaged: digest => checks.examine(digest, discardFile),

    async *list(begin = 0) {
      for (const algorithm of ['sha256', 'sha512'] as const) {
        const base = join(root, 'blobs', algorithm);
        const shards = (await readdir(base).catch(absent)) ?? [];
        const first = Math.floor(begin * shards.length);
        for (const shard of [...shards.slice(first), ...shards.slice(0, first)]) {
          for (const hex of await readdir(join(base, shard))) {
            const digest = `${algorithm}:${hex}` as Digest;
            const found = await stat(pathOf(digest)).catch(absent);
            if (found) yield { digest, size: found.size };
          }
        }
      }
    },

    removeLeftovers: (since, kept = []) =>
      removeOlder(temporary, since, { kept: new Set(kept.map(({ draft }) => draft)) }),
    endTransfers: async () => 0,
    // Those of a directory are leftovers of a start.
    removeStrayDrafts: async () => 0,
    removeDamaged: (before, signal) => removeOlder(damaged, before, { signal }),
  };
}

/** Removes the files of a folder that were last written before the moment; returns how many. */
async function removeOlder(
  folder: string,
  moment: number,
  options: { readonly kept?: ReadonlySet<string>; readonly signal?: AbortSignal | undefined } = {},
): Promise<number> {
  const { kept, signal } = options;
  let removed = 0;
  for (const name of (await readdir(folder).catch(absent)) ?? []) {
    signal?.throwIfAborted();
    if (kept?.has(name)) continue;
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

/** Brings the names of all content to the disk. The bytes got there before the content was named. */
async function syncAll(root: string, sync: DiskSync): Promise<void> {
  const algorithms = await readdir(join(root, 'blobs')).catch(absent);
  for (const algorithm of algorithms ?? []) {
    const base = join(root, 'blobs', algorithm);
    const shards = await readdir(base);
    await Promise.all([base, ...shards.map(shard => join(base, shard))].map(sync.directory));
  }
  await Promise.all([root, ...(algorithms ? [join(root, 'blobs')] : [])].map(sync.directory));
}
