import type { FileTree } from '../../../buildkit/index.ts';
import { type ContextEntry, contextTypes, readEntries } from '../../../contexts/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { type Digest, isDigest } from '../../../oci/digest.ts';
import { type Descriptor, type ImageManifest, parseManifest } from '../../../oci/index.ts';
import { mediaTypes } from '../../../oci/media-type.ts';
import { copiesOf } from '../../../storage/content/byte-source.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import { readAhead } from './read-ahead.ts';
import { TarIndex } from './tar-index.ts';

/** A build context that was uploaded as an artifact. Nothing is unpacked: its files are read from its blobs. */
export interface UploadedContext {
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
    refuse(`lists files of ${size} bytes, but its layers have ${chain.size} bytes`);
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
  if (!bytes) throw gone();
  const manifest = parseManifest({ bytes, digest, mediaType: mediaTypes.ociManifest });
  if (manifest.kind !== 'manifest' || manifest.artifactType !== contextTypes.artifact) {
    return refuse(`is not an artifact of the type ${contextTypes.artifact}`);
  }
  const { config, layers } = manifest;
  const stray = layers.find(layer => layer.mediaType !== contextTypes.content);
  if (config.mediaType !== contextTypes.list || stray) {
    const found = stray ? stray.mediaType : config.mediaType;
    const wanted = stray ? contextTypes.content : contextTypes.list;
    refuse(`has a part of the type '${found.slice(0, 100)}' in place of ${wanted}`);
  }
  return manifest;
}

async function requireContent(content: ContextContent, part: Descriptor): Promise<void> {
  const size = isDigest(part.digest) ? await content.size(part.digest) : undefined;
  if (size === undefined) throw gone();
  if (size !== part.size || size === 0) refuse(`has a wrong size for ${part.digest}`);
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

function gone(): Fault {
  return new Fault(
    'bad-request',
    'The build context is not complete here, or has expired: upload it again',
    { phase: 'build' },
  );
}

function refuse(what: string): never {
  throw new Fault('bad-request', `The build context ${what}`, { phase: 'build' });
}
