import { randomUUID } from 'node:crypto';
import { rmSync, statSync, utimesSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Digest, type DigestAlgorithm, digestOf, splitDigest } from '../oci/digest.ts';
import type { ByteSource } from './byte-source.ts';
import { fileSource } from './file-source.ts';
import { type Ingest, startIngest } from './ingest.ts';

/** Content by digest. What is in it is whole: it was verified before it got its name. */
export interface ContentStore {
  /** Size in bytes, undefined when it is not here. */
  size(digest: Digest): Promise<number | undefined>;
  /** All bytes of a small document, undefined when it is not here. */
  read(digest: Digest): Promise<Buffer | undefined>;
  /** The bytes from `start` to `end`, both included; the caller reads to the end or destroys the source. */
  open(digest: Digest, start: number, end: number): ByteSource;
  /** The file it is in, to be read by a program; undefined when it is not here, or in no file. */
  localPath(digest: Digest): Promise<string | undefined>;
  /** Keeps a small document whose digest the caller has verified; survives the process, not a power failure. */
  write(digest: Digest, bytes: Buffer): Promise<void>;
  /** Begins to take in content of which the digest is known or will be told at the end. */
  ingest(algorithm?: DigestAlgorithm): Promise<Ingest>;
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
  /** Everything here; for sweeps, not for requests. */
  list(): AsyncIterable<KeptContent>;
  /** Removes what was on its way in and not written to since the moment; returns how many files. */
  removeLeftovers(since: number): Promise<number>;
}

export interface KeptContent {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /** ms since the epoch. */
  readonly usedAt: number;
}

/** Opens, and creates where absent, the store below `root`. */
export async function openContentStore(root: string): Promise<ContentStore> {
  const temporary = join(root, 'tmp');
  await mkdir(temporary, { recursive: true });
  const pathOf = (digest: Digest) => {
    const { algorithm, hex } = splitDigest(digest);
    return join(root, 'blobs', algorithm, hex.slice(0, 2), hex);
  };
  const newTemporary = () => join(temporary, randomUUID());
  const adopt = async (from: string, digest: Digest) => {
    const path = pathOf(digest);
    const folder = dirname(path);
    const made = await mkdir(folder, { recursive: true });
    await rename(from, path);
    await syncDirectory(folder);
    if (made !== undefined) await syncDirectory(dirname(made));
  };

  return {
    async size(digest) {
      const found = await stat(pathOf(digest)).catch(absent);
      return found?.size;
    },

    async read(digest) {
      const bytes = await readFile(pathOf(digest)).catch(absent);
      // A disk can rot; a document is small enough to make sure each time it comes from there.
      return bytes && digestOf(bytes, splitDigest(digest).algorithm) === digest ? bytes : undefined;
    },

    open: (digest, start, end) => fileSource(pathOf(digest), start, end),

    async localPath(digest) {
      const path = pathOf(digest);
      return (await stat(path).catch(absent)) && path;
    },

    async write(digest, bytes) {
      const path = newTemporary();
      await writeFile(path, bytes, { flag: 'wx' });
      await mkdir(dirname(pathOf(digest)), { recursive: true });
      await rename(path, pathOf(digest));
    },

    ingest: (algorithm = 'sha256') => startIngest(newTemporary(), algorithm, { pathOf, adopt }),

    claim(digest) {
      const now = new Date();
      return unlessAbsent(() => utimesSync(pathOf(digest), now, now));
    },

    removeUnused(digest, since) {
      const path = pathOf(digest);
      const found = statSync(path, { throwIfNoEntry: false });
      if (found && found.mtimeMs >= since) return false;
      rmSync(path, { force: true });
      return true;
    },

    async *list() {
      for (const algorithm of ['sha256', 'sha512'] as const) {
        const base = join(root, 'blobs', algorithm);
        for (const shard of (await readdir(base).catch(absent)) ?? []) {
          for (const hex of await readdir(join(base, shard))) {
            const digest = `${algorithm}:${hex}` as Digest;
            const found = await stat(pathOf(digest)).catch(absent);
            if (found) yield { digest, size: found.size, usedAt: found.mtimeMs };
          }
        }
      }
    },

    async removeLeftovers(since) {
      let removed = 0;
      for (const name of await readdir(temporary)) {
        const path = join(temporary, name);
        const found = await stat(path).catch(absent);
        if (!found || found.mtimeMs >= since) continue;
        await rm(path, { force: true });
        removed += 1;
      }
      return removed;
    },
  };
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
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

// The rename itself is only safe from a power failure once the directory is on disk.
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
