import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { sparseError, TarError, TarReader, textOfBytes } from '../../../archives/index.ts';
import type { FileTree } from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type ByteSource, copiesOf } from '../../../storage/content/byte-source.ts';
import type { ContentStore, ScratchFile } from '../../../storage/content/index.ts';
import { readAhead } from './read-ahead.ts';
import { TarIndex } from './tar-index.ts';

const readBytes = 256 * 1024;

/** The files of a build context, until it is disposed of. */
export interface BuildContext extends AsyncDisposable {
  readonly tree: FileTree;
}

/**
 * Opens a build context that was submitted. Its tar file is in the content store's temporary directory until then.
 * Throws a {@link Fault} when it contains an entry that a build context cannot have, or no longer exists.
 */
export async function openBuildContext(
  content: ContentStore,
  digest: Digest,
  signal: AbortSignal,
): Promise<BuildContext> {
  const size = await content.size(digest);
  if (size === undefined) {
    throw new Fault(
      'unavailable',
      'The build context is no longer available: request the build again',
      {
        phase: 'build',
      },
    );
  }
  const file = await content.scratch();
  try {
    const index = await readTar(content.open(digest, 0, size - 1), file, signal);
    const read = (start: number, end: number) =>
      createReadStream(file.path, { start, end, highWaterMark: readBytes });
    return {
      tree: index.tree(readAhead(read, (await stat(file.path)).size)),
      [Symbol.asyncDispose]: () => file[Symbol.asyncDispose](),
    };
  } catch (error) {
    await file[Symbol.asyncDispose]();
    throw error;
  }
}

/** Copies the tar file out of a gzip file and indexes its entries. */
async function readTar(
  source: ByteSource,
  file: ScratchFile,
  signal: AbortSignal,
): Promise<TarIndex> {
  const index = new TarIndex();
  const tar = new TarReader({
    entry(entry, { contentStart }) {
      const { path, link, isSparse } = entry;
      // Its length in the archive differs from its length on a disk.
      if (isSparse) throw sparseError(path);
      index.add({ ...entry, path: textOfBytes(path), link: textOfBytes(link), contentStart });
      return false;
    },
    content() {},
  });
  try {
    await pipeline(
      Readable.from(copiesOf(source)),
      createGunzip(),
      async (pieces: AsyncIterable<Buffer>) => {
        for await (const piece of pieces) {
          tar.write(piece);
          await file.write(piece);
        }
        tar.end();
      },
      { signal },
    );
    return index;
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof TarError)) throw error;
    throw new Fault('bad-request', `The build context ${error.message}`, {
      phase: 'build',
      cause: error,
    });
  }
}
