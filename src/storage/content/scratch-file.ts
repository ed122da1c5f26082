import { unlink } from 'node:fs/promises';
import type { SpacePromise } from '../directory/index.ts';
import { type Draft, writeFully } from './ingest.ts';

/** A file on this machine that a program can read. It stays in place until it is disposed of. */
export interface LocalFile extends AsyncDisposable {
  readonly path: string;
}

/** A file on this machine for as long as the caller works with it. Disposing of it removes it. */
export interface ScratchFile extends LocalFile {
  /** Appends; resolves when the bytes are written, so that the caller may reuse the buffer. One call at a time. */
  write(bytes: Uint8Array): Promise<void>;
}

/** Returns a new file, open for writing, as a scratch file. */
export function scratchFile({ path, file }: Draft, space: SpacePromise): ScratchFile {
  let size = 0;
  return {
    path,
    async write(bytes) {
      space.spend(bytes.length);
      size += await writeFully(file, [bytes], size);
    },
    async [Symbol.asyncDispose]() {
      space.end();
      await file.close();
      // `rm` looks at the file twice before it removes it.
      await unlink(path).catch(unlessAbsent);
    },
  };
}

function unlessAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
