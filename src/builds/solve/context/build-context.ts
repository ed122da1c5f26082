import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract } from 'tar-stream';
import type { FileTree } from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { TarError } from '../../../images/sif/tar/tar-error.ts';
import { sparseError, TarReader } from '../../../images/sif/tar/tar-reader.ts';
import type { Digest } from '../../../oci/digest.ts';
import { type ByteSource, copiesOf } from '../../../storage/content/byte-source.ts';
import type { ContentStore } from '../../../storage/content/content-store.ts';
import type { ScratchFile } from '../../../storage/content/scratch-file.ts';
import { readAhead } from './read-ahead.ts';
import { type TarEntry, TarIndex } from './tar-index.ts';

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
  const tar = extract();
  // tar-stream keeps headers of any length in memory. This reader rejects headers of more than a MiB. It also rejects
  // sparse files: their length in the archive differs from their length on a disk.
  const guard = new TarReader({
    entry({ path, isSparse }) {
      if (isSparse) throw sparseError(path);
      return false;
    },
    content() {},
  });
  const noted = (async () => {
    for await (const entry of tar) {
      index.add(entry.header as unknown as TarEntry);
      entry.resume();
    }
  })();
  const copied = pipeline(
    Readable.from(copiesOf(source)),
    createGunzip(),
    async function* keep(pieces: AsyncIterable<Buffer>) {
      for await (const piece of pieces) {
        guard.write(piece);
        await file.write(piece);
        yield piece;
      }
    },
    tar,
    { signal },
  );
  // Each of the two ends the other; only one of them has the reason.
  const ends = await Promise.allSettled([noted, copied]);
  const reasons = ends.flatMap(end => (end.status === 'rejected' ? [end.reason] : []));
  if (reasons.length === 0) return index;
  const told = reasons.find(reason => reason instanceof Fault);
  signal.throwIfAborted();
  throw told ?? malformed(reasons[0]);
}

/** Errors of tar-stream have no code. System errors have one, and are not the archive's fault. */
function malformed(error: Error & { readonly code?: string }): Error {
  if (error.code !== undefined) return error;
  const what = error instanceof TarError ? '' : 'is not a complete tar archive: ';
  return new Fault('bad-request', `The build context ${what}${error.message}`, {
    phase: 'build',
    cause: error,
  });
}
