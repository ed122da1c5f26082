import { createHash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import type { Digest, DigestAlgorithm } from '../../oci/digest.ts';
import type { SpacePromise } from '../directory/disk-space.ts';
import { drain } from './byte-source.ts';
import { wholeFile } from './file-source.ts';

/** Content on its way in: a temporary file that becomes visible only as a whole. */
export interface Ingest {
  /** Where the bytes are until they are committed. */
  readonly path: string;
  /** Opens what is written for reading, up to `size` at any time; also while it is committed, and after that. */
  openToRead(): Promise<FileHandle>;
  /** Bytes written so far. */
  readonly size: number;
  /** Appends; resolves when the bytes are written, so the caller may reuse the buffers. One call at a time. */
  write(...parts: readonly Uint8Array[]): Promise<void>;
  /** The digest of what was written so far. */
  digest(): Digest;
  /** Goes over to another algorithm; what is written already is read again for it. */
  hashWith(algorithm: DigestAlgorithm): Promise<void>;
  /** Makes it durable and visible under its digest, which it returns. */
  commit(): Promise<Digest>;
  /** Removes it; harmless after a commit. */
  abort(): Promise<void>;
}

/** A new file, open for writing. */
export interface Draft {
  readonly path: string;
  readonly file: FileHandle;
}

/** Where content has its place once it is whole. */
export interface Home {
  pathOf(digest: Digest): string;
  /** Brings the bytes of a file to the disk. */
  sync(file: FileHandle): Promise<void>;
  /** Space for it; given back when the last byte is written. */
  readonly space: SpacePromise;
  /** Moves a file there, durably. */
  adopt(path: string, digest: Digest): Promise<void>;
}

export function startIngest(
  { path, file }: Draft,
  initialAlgorithm: DigestAlgorithm,
  home: Home,
): Ingest {
  let algorithm = initialAlgorithm;
  let hash = createHash(algorithm);
  let size = 0;
  let isOpen = true;
  const digest = () => `${algorithm}:${hash.copy().digest('hex')}` as Digest;

  return {
    path,

    async openToRead() {
      try {
        return await open(path, 'r');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        // It has been moved meanwhile.
        return await open(home.pathOf(digest()), 'r');
      }
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
      const other = createHash(wanted);
      await drain(wholeFile(path, size), bytes => other.update(bytes));
      algorithm = wanted;
      hash = other;
    },

    async commit() {
      home.space.end();
      await home.sync(file);
      isOpen = false;
      await file.close();
      const name = digest();
      await home.adopt(path, name);
      return name;
    },

    async abort() {
      home.space.end();
      if (isOpen) {
        isOpen = false;
        await file.close();
      }
      await rm(path, { force: true });
    },
  };
}

/** Returns how many bytes that were. */
async function writeFully(
  file: FileHandle,
  parts: readonly Uint8Array[],
  position: number,
): Promise<number> {
  const total = parts.reduce((sum, { length }) => sum + length, 0);
  let { bytesWritten: done } = await file.writev([...parts], position);
  // A disk that is nearly full takes less than it is given.
  const rest = done < total ? Buffer.concat(parts) : undefined;
  while (rest && done < total) {
    done += (await file.write(rest, done, total - done, position + done)).bytesWritten;
  }
  return total;
}
