import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Digest, DigestAlgorithm } from '../../oci/digest.ts';
import type { SpacePromise } from '../directory/index.ts';
import { type ByteSource, drain } from './byte-source.ts';
import { removedMeanwhile } from './content-presence.ts';
import { fileSource, type SlabPool, wholeFile } from './file-source.ts';

/** Content on its way in. It becomes visible only when it is complete. */
export interface Ingest {
  /**
   * Opens the written bytes for reading, up to `size` at any time. The reader stays valid during and after a commit, and
   * after an abort.
   *
   * @throws {@link Fault} (503) when the content was removed after its commit
   */
  openToRead(): Promise<IngestReader>;
  /** Bytes written so far. */
  readonly size: number;
  /** Appends; resolves when the bytes are written, so the caller may reuse the buffers. One call at a time. */
  write(...parts: readonly Uint8Array[]): Promise<void>;
  /** Returns the digest of the bytes written so far. */
  digest(): Digest;
  /** Switches to another algorithm, and reads the written bytes again for it. */
  hashWith(algorithm: DigestAlgorithm): Promise<void>;
  /**
   * Makes the content durable and visible under its digest, which it returns. After a {@link Fault} (503) it may be
   * called again: the bytes are kept until then, unless the content was removed meanwhile.
   */
  commit(): Promise<Digest>;
  /**
   * Brings the bytes so far to where they survive the end of the server, whatever ends it. Returns what
   * {@link ContentStore.resume} takes.
   */
  keep(): Promise<KeptDraft>;
  /** Ends it here. What `keep` has kept stays, for {@link ContentStore.resume}. */
  leave(): Promise<void>;
  /** Removes the content, and what `keep` has kept. After a commit, only the latter. */
  abort(): Promise<void>;
}

/** Content on its way in that another process can continue. */
export interface KeptDraft {
  /** Its name in the store. */
  readonly draft: string;
  readonly algorithm: DigestAlgorithm;
  /** Bytes. */
  readonly size: number;
}

/** A reader of content on its way in. The caller either reads or closes it. */
export interface IngestReader {
  /** Returns the bytes of the range as a source; call it once. Destroying the source closes the reader. */
  read(range: ReadRange): ByteSource;
  /** Closes a reader that was not read. */
  close(): void;
}

export interface ReadRange {
  /** First and last byte to read, both included. */
  readonly start: number;
  readonly end: number;
  /**
   * Waits until there are bytes after the position, and returns the position (excluded) up to which they may be read.
   * Rejects when they will never come.
   */
  readonly available: (position: number) => Promise<number>;
  /** Called once, when the source is closed. */
  readonly onClose: () => void;
}

/** A new file, open for writing. */
export interface Draft {
  readonly path: string;
  readonly file: FileHandle;
}

/** The place of complete content. */
export interface Home {
  pathOf(digest: Digest): string;
  /** Brings the bytes of a file to the disk. */
  sync(file: FileHandle): Promise<void>;
  /** Brings the bytes of a draft to the disk, and its name. */
  keep(file: FileHandle): Promise<void>;
  /** Space for it; returned when the last byte is written. */
  readonly space: SpacePromise;
  /** Buffers for its readers. */
  readonly slabs: SlabPool;
  /** Enters content that is about to be moved there; returns a function to call after the move. */
  enter(digest: Digest, size: number): Promise<() => Promise<void>>;
  /** Moves a file there durably. */
  adopt(path: string, digest: Digest): Promise<void>;
  /** Throws a {@link Fault} (503) unless the content is there. */
  require(digest: Digest): Promise<void>;
}

export function startIngest(draft: Draft, algorithm: DigestAlgorithm, home: Home): Ingest {
  return ingestFrom(draft, { algorithm, hash: createHash(algorithm), size: 0 }, home);
}

/** Continues a draft; undefined when the file has fewer bytes than were kept. The caller then closes the file. */
export async function resumeIngest(
  draft: Draft,
  { algorithm, size }: KeptDraft,
  home: Home,
): Promise<Ingest | undefined> {
  if ((await draft.file.stat()).size < size) return undefined;
  await draft.file.truncate(size);
  const hash = await hashOf(draft.path, size, algorithm, home.slabs);
  return ingestFrom(draft, { algorithm, hash, size }, home);
}

interface Begun {
  readonly algorithm: DigestAlgorithm;
  readonly hash: Hash;
  readonly size: number;
}

function ingestFrom({ path, file }: Draft, begun: Begun, home: Home): Ingest {
  let { algorithm, hash, size } = begun;
  let isOpen = true;
  const digest = () => `${algorithm}:${hash.copy().digest('hex')}` as Digest;
  const reopen = async (): Promise<FileHandle> => {
    try {
      return await open(path, 'r');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    // A commit has moved the file.
    const name = digest();
    return open(home.pathOf(name), 'r').catch(error => {
      throw error.code === 'ENOENT' ? removedMeanwhile(name) : error;
    });
  };

  const leave = async (): Promise<void> => {
    home.space.end();
    if (!isOpen) return;
    isOpen = false;
    await file.close();
  };

  return {
    async openToRead() {
      // Not by the first read: an abort removes the name.
      const handle = await reopen();
      return {
        read: range => fileSource({ open: async () => handle, slabs: home.slabs, ...range }),
        close: () => void handle.close().catch(() => {}),
      };
    },

    get size() {
      return size;
    },

    async write(...parts) {
      home.space.spend(parts.reduce((sum, { length }) => sum + length, 0));
      // The write runs on another thread while this one hashes.
      const written = writeFully(file, parts, size);
      for (const bytes of parts) hash.update(bytes);
      size += await written;
    },

    digest,

    async hashWith(wanted) {
      if (wanted === algorithm) return;
      hash = await hashOf(path, size, wanted, home.slabs);
      algorithm = wanted;
    },

    async keep() {
      const kept = { draft: basename(path), algorithm, size };
      await home.keep(file);
      return kept;
    },

    async commit() {
      home.space.end();
      const name = digest();
      if (!isOpen) {
        const arriveAgain = await home.enter(name, size);
        await home.require(name);
        await arriveAgain();
        return name;
      }
      const [arrive] = await Promise.all([home.enter(name, size), home.sync(file)]);
      isOpen = false;
      await file.close();
      await home.adopt(path, name);
      await arrive();
      return name;
    },

    leave,

    async abort() {
      await leave();
      await rm(path, { force: true });
    },
  };
}

async function hashOf(
  path: string,
  size: number,
  algorithm: DigestAlgorithm,
  slabs: SlabPool,
): Promise<Hash> {
  const hash = createHash(algorithm);
  await drain(wholeFile(path, size, slabs), bytes => hash.update(bytes));
  return hash;
}

/** Writes the parts at a position of the file; returns their length. */
export async function writeFully(
  file: FileHandle,
  parts: readonly Uint8Array[],
  position: number,
): Promise<number> {
  const total = parts.reduce((sum, { length }) => sum + length, 0);
  let { bytesWritten: done } = await file.writev([...parts], position);
  // A disk that is nearly full writes fewer bytes than requested.
  const rest = done < total ? Buffer.concat(parts) : undefined;
  while (rest && done < total) {
    done += (await file.write(rest, done, total - done, position + done)).bytesWritten;
  }
  return total;
}
