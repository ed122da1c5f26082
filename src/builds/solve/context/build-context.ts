import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { sparseError, TarError, TarReader, textOfBytes } from '../../../archives/index.ts';
import type { FileTree } from '../../../buildkit/index.ts';
import { type ContextEntry, contextTypes, readEntries } from '../../../contexts/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { type Digest, isDigest } from '../../../oci/digest.ts';
import { type Descriptor, type ImageManifest, parseManifest } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import { type ByteSource, copiesOf } from '../../../storage/content/byte-source.ts';
import type { ContentStore, ScratchFile } from '../../../storage/content/index.ts';
import type { RecipeOrigin } from '../../plan/build-plan.ts';
import { readAhead, TarIndex } from './tar-index.ts';

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

/** Opens the files that the caller of a build sent or uploaded. Returns undefined if there are none. */
export async function openSentContext(
  content: ContentStore,
  { context, isUploaded }: Pick<RecipeOrigin, 'context' | 'isUploaded'>,
  signal: AbortSignal,
): Promise<BuildContext | undefined> {
  if (context === undefined) return undefined;
  if (!isUploaded) return openBuildContext(content, context, signal);
  const { tree } = await openUploadedContext(content, context);
  return { tree, async [Symbol.asyncDispose]() {} };
}

/** A build context that was uploaded as an artifact. Nothing is unpacked: its files are read from its blobs. */
interface UploadedContext {
  readonly tree: FileTree;
  /** In the order of their content. */
  readonly entries: readonly ContextEntry[];
  /** Digests of its whole content: its manifest, its list and the content of its files. */
  readonly parts: readonly Digest[];
  /** Returns the content of all files, one after the other. */
  read(): AsyncIterable<Uint8Array>;
}

/** The content that a build context may have. */
export type ContextContent = Pick<ContentStore, 'read' | 'size' | 'open'>;

/** Opens an uploaded build context by the digest of its manifest. Throws a {@link Fault} when it is not a valid one. */
export async function openUploadedContext(
  content: ContextContent,
  digest: Digest,
): Promise<UploadedContext> {
  const { config, layers } = await manifestOf(content, digest);
  for (const part of [config, ...layers]) await requireContent(content, part);
  const entries = await entriesIn(content, config);
  const index = new TarIndex();
  let size = 0;
  for (const entry of entries) {
    const { target: link = '' } = entry;
    index.add({ ...entry, link, contentStart: size });
    size += entry.size;
    await pauseTurn();
  }
  const chain = chainOf(content, layers);
  if (chain.size !== size) {
    refuseContext(`lists files of ${size} bytes, but its layers have ${chain.size} bytes`);
  }
  return {
    tree: index.tree(readAhead(chain.read, size)),
    entries,
    parts: [digest, config.digest, ...layers.map(layer => layer.digest)],
    read: () => chain.read(0, size - 1),
  };
}

/** Returns the files of an uploaded build context. Throws a {@link Fault} when it is not a valid one, or has expired. */
export async function listUploadedContext(
  content: ContextContent,
  digest: Digest,
): Promise<readonly ContextEntry[]> {
  const { config } = await manifestOf(content, digest);
  await requireContent(content, config);
  return entriesIn(content, config);
}

function entriesIn(content: ContextContent, { digest, size }: Descriptor): Promise<ContextEntry[]> {
  return readEntries(copiesOf(content.open(digest as Digest, 0, size - 1)));
}

async function manifestOf(content: ContextContent, digest: Digest): Promise<ImageManifest> {
  const bytes = await content.read(digest);
  if (!bytes) throw contextGone();
  const manifest = parseManifest({ bytes, digest, mediaType: mediaTypes.ociManifest });
  if (manifest.kind !== 'manifest' || manifest.artifactType !== contextTypes.artifact) {
    return refuseContext(`is not an artifact of the type ${contextTypes.artifact}`);
  }
  const { config, layers } = manifest;
  const stray = layers.find(layer => layer.mediaType !== contextTypes.content);
  if (config.mediaType !== contextTypes.list || stray) {
    const found = stray ? stray.mediaType : config.mediaType;
    const wanted = stray ? contextTypes.content : contextTypes.list;
    refuseContext(`has a part of the type '${found.slice(0, 100)}' in place of ${wanted}`);
  }
  return manifest;
}

async function requireContent(content: ContextContent, part: Descriptor): Promise<void> {
  const size = isDigest(part.digest) ? await content.size(part.digest) : undefined;
  if (size === undefined) throw contextGone();
  if (size !== part.size || size === 0) refuseContext(`has a wrong size for ${part.digest}`);
}

/** Joins blobs into one long file. */
function chainOf(content: ContextContent, blobs: readonly Descriptor[]) {
  const starts: number[] = [];
  let size = 0;
  for (const blob of blobs) {
    starts.push(size);
    size += blob.size;
  }
  return {
    size,
    /** Returns the bytes from `start` to `end`, both included. */
    async *read(start: number, end: number): AsyncGenerator<Uint8Array> {
      for (let at = indexOf(starts, start), from = start; from <= end; at += 1) {
        const blob = blobs[at] as Descriptor;
        const offset = starts[at] as number;
        const to = Math.min(end, offset + blob.size - 1);
        yield* copiesOf(content.open(blob.digest, from - offset, to - offset));
        from = to + 1;
      }
    },
  };
}

/** Returns the index of the last blob that begins at or before a position. */
function indexOf(starts: readonly number[], position: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((starts[middle] as number) <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function contextGone(): Fault {
  return new Fault(
    'bad-request',
    'The build context is not complete here, or has expired: upload it again',
    { phase: 'build' },
  );
}

function refuseContext(what: string): never {
  throw new Fault('bad-request', `The build context ${what}`, { phase: 'build' });
}
