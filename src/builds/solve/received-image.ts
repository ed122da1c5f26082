import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { BlobSink, BlobWriter } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { type Digest, isDigest } from '../../oci/digest.ts';
import { type Descriptor, type Document, parseManifest } from '../../oci/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';

/** A blob that the builder has sent. */
export interface ReceivedBlob {
  /** Bytes. */
  readonly size: number;
  /** Reads it from its beginning. The reader may change the bytes. */
  open(): Readable;
  /** The file with it; undefined for a small one in memory. */
  readonly path?: string;
}

/** The image of one build, as its builder sends it. Disposing of it removes its files. */
export interface ReceivedImage extends BlobSink, AsyncDisposable {
  /** Returns undefined for a blob that the builder did not send. */
  blob(digest: Digest): ReceivedBlob | undefined;
}

/** Of each build. Larger blobs, and further ones, are files. */
const memoryBytes = 1024 * 1024;
const smallBytes = 64 * 1024;
/** Far more than the layers and platforms that images may have. */
const mostBlobs = 20_000;
const mostDocumentBytes = 16 * 1024 * 1024;
const chunkBytes = 256 * 1024;

/** @param isThere returns true for a blob that the builder does not have to send */
export function receiveImage(
  content: Pick<ContentStore, 'scratch'>,
  isThere: (digest: Digest) => boolean | Promise<boolean>,
): ReceivedImage {
  const blobs = new Map<Digest, ReceivedBlob>();
  const files = new AsyncDisposableStack();
  let inMemory = 0;
  let count = 0;

  const openSmall = (digest: Digest, size: number): BlobWriter => {
    const bytes = Buffer.alloc(size);
    let at = 0;
    return {
      async write(part) {
        bytes.set(part, at);
        at += part.length;
      },
      async commit() {
        requireDigest(digest, createHash('sha256').update(bytes).digest('hex'));
        blobs.set(digest, { size, open: () => Readable.from([Buffer.from(bytes)]) });
      },
      async abort() {},
    };
  };

  const openLarge = async (digest: Digest, size: number): Promise<BlobWriter> => {
    const file = await content.scratch(size);
    if (files.disposed) await file[Symbol.asyncDispose]();
    // Throws when the build has ended meanwhile.
    files.use(file);
    // On this thread: to copy the parts for another one takes longer than to hash them (about 1 ms a MiB).
    const hash = createHash('sha256');
    return {
      async write(part) {
        hash.update(part);
        await file.write(part);
      },
      async commit() {
        requireDigest(digest, hash.digest('hex'));
        const { path } = file;
        const open = () => createReadStream(path, { highWaterMark: chunkBytes });
        blobs.set(digest, { size, open, path });
      },
      async abort() {},
    };
  };

  return {
    has: async digest => isDigest(digest) && (blobs.has(digest) || (await isThere(digest))),

    async open(digest, size) {
      count += 1;
      if (!isDigest(digest) || !digest.startsWith('sha256:') || count > mostBlobs) {
        throw unusable(`has more than ${mostBlobs} parts, or one without a SHA-256 digest`);
      }
      if (size > smallBytes || inMemory + size > memoryBytes) return openLarge(digest, size);
      inMemory += size;
      return openSmall(digest, size);
    },

    blob: digest => blobs.get(digest),

    [Symbol.asyncDispose]: () => files.disposeAsync(),
  };
}

/** Returns the manifests, indexes and configs of an image that the builder has sent. Throws a {@link Fault}. */
export async function receivedDocuments(
  image: Pick<ReceivedImage, 'blob'>,
  root: Pick<Descriptor, 'digest' | 'mediaType'>,
): Promise<ReadonlyMap<Digest, Document>> {
  const found = new Map<Digest, Document>();
  const read = async ({ digest, mediaType }: Pick<Descriptor, 'digest' | 'mediaType'>) => {
    const blob = image.blob(digest);
    if (!blob || blob.size > mostDocumentBytes) throw unusable(`has no readable ${digest}`);
    const document = { digest, mediaType, bytes: await buffer(blob.open()) };
    found.set(digest, document);
    return document;
  };
  const visit = async (entry: Pick<Descriptor, 'digest' | 'mediaType'>): Promise<void> => {
    if (found.has(entry.digest)) return;
    const manifest = parseManifest(await read(entry));
    if (manifest.kind === 'manifest') await read(manifest.config);
    if (manifest.kind === 'index') for (const child of manifest.manifests) await visit(child);
  };
  await visit(root);
  return found;
}

function requireDigest(digest: Digest, hex: string): void {
  if (digest !== `sha256:${hex}`) throw unusable(`has other bytes than those of ${digest}`);
}

function unusable(why: string): Fault {
  return new Fault('unavailable', `The image that the builder sends ${why}: try again`, {
    phase: 'build',
  });
}
