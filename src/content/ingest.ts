import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import type { Digest, DigestAlgorithm } from '../oci/digest.ts';

/** Content on its way in: a temporary file that becomes visible only as a whole. */
export interface Ingest {
  /** Where the bytes are until they are committed; readable up to `size` at any time. */
  readonly path: string;
  /** Bytes written so far. */
  readonly size: number;
  /** Appends; resolves when the bytes are written, so the caller may reuse the buffer. */
  write(bytes: Uint8Array): Promise<void>;
  /** The digest of what was written so far. */
  digest(): Digest;
  /** Goes over to another algorithm; what is written already is read again for it. */
  hashWith(algorithm: DigestAlgorithm): Promise<void>;
  /** Makes it durable and visible under its digest, which it returns. */
  commit(): Promise<Digest>;
  /** Removes it; harmless after a commit. */
  abort(): Promise<void>;
}

export async function startIngest(
  path: string,
  initialAlgorithm: DigestAlgorithm,
  adopt: (path: string, digest: Digest) => Promise<void>,
): Promise<Ingest> {
  const file: FileHandle = await open(path, 'wx');
  let algorithm = initialAlgorithm;
  let hash = createHash(algorithm);
  let size = 0;
  let isOpen = true;
  const digest = () => `${algorithm}:${hash.copy().digest('hex')}` as Digest;

  return {
    path,
    get size() {
      return size;
    },

    async write(bytes) {
      // The write runs on another thread while this one hashes.
      const written = writeFully(file, bytes, size);
      hash.update(bytes);
      await written;
      size += bytes.length;
    },

    digest,

    async hashWith(wanted) {
      if (wanted === algorithm) return;
      const other = createHash(wanted);
      if (size > 0) {
        for await (const bytes of createReadStream(path, { end: size - 1 })) other.update(bytes);
      }
      algorithm = wanted;
      hash = other;
    },

    async commit() {
      await file.sync();
      isOpen = false;
      await file.close();
      const name = digest();
      await adopt(path, name);
      return name;
    },

    async abort() {
      if (isOpen) {
        isOpen = false;
        await file.close();
      }
      await rm(path, { force: true });
    },
  };
}

async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}
