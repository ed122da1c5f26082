import { createHash } from 'node:crypto';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Digest } from '../../oci/digest.ts';
import { asObject, type JsonObject, memberName } from '../../oci/json.ts';
import { drain } from '../../storage/content/byte-source.ts';
import { fileSource } from '../../storage/content/file-source.ts';
import { type SpacePromise, unlimitedSpace } from '../../storage/directory/disk-space.ts';
import type { DefinitionRuntime } from './definition/definition-runtime.ts';
import { type SifContents, sifHead, signedObjects, squashfsOffset } from './format/sif-file.ts';
import { gatherLayers } from './layers/gather.ts';
import type { LayerSource } from './layers/source.ts';
import type { ConvertLimits } from './limits.ts';
import { inspectMetadata, type RuntimeWish, runtimeFiles } from './runtime/runtime-files.ts';
import { addRuntimeFiles } from './runtime/runtime-overlay.ts';
import { createScratchSpace } from './scratch-space.ts';
import { signSif } from './signing/sign-sif.ts';
import type { SifSigner } from './signing/signer.ts';
import { showBytes, showSince } from './sizes.ts';
import { type Compression, usualCompression } from './squashfs/compression.ts';
import { requireMksquashfs } from './squashfs/mksquashfs.ts';
import { squashImage } from './squashfs/squash-image.ts';

/** An image that a SIF file is made of. */
export interface SifSource extends LayerSource {
  /** The image config, the whole document. */
  readonly config: JsonObject;
  readonly architecture: 'amd64' | 'arm64';
}

export interface ConvertOptions {
  /** An empty directory for this conversion alone. The caller removes it, the file that was made with it. */
  readonly directory: string;
  /** What the image is said to be made from; see `imageDefinition`. */
  readonly definition: DefinitionRuntime;
  readonly limits: ConvertLimits;
  /** Space on the disk of the directory; unlimited unless given. The caller ends it. */
  readonly disk?: SpacePromise;
  /** Name or path of the command. */
  readonly mksquashfs: string;
  /** Signs the file; without it there is no signature. */
  readonly signer?: SifSigner | undefined;
  /** Of the file system; gzip unless told. */
  readonly compression?: Compression | undefined;
  /** Milliseconds that mksquashfs may do nothing before it is ended; ten minutes unless told. */
  readonly stallMs?: number | undefined;
  /** Threads that compress; as many as there are processors unless told. */
  readonly processors?: number;
  /** Is told what goes on, a line at a time. */
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface ConvertedSif {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  readonly digest: Digest;
}

const output = 'image.sif';

/**
 * Makes a SIF file of an image, without root, namespaces, or its files on disk. The same image and
 * definition give the same bytes. Throws a {@link Fault}, or the signal's reason when that is aborted;
 * nothing runs any more then, and the directory is empty again.
 */
export async function convertToSif(
  source: SifSource,
  options: ConvertOptions,
): Promise<ConvertedSif> {
  const { directory, signal, log } = options;
  const begin = performance.now();
  signal.throwIfAborted();
  await requireMksquashfs(options.mksquashfs);
  const fetched = join(directory, 'layers');
  const path = join(directory, output);
  try {
    await mkdir(fetched);
    const digest = await make(source, options, fetched, path);
    const { size } = await stat(path);
    log(`made the SIF file, ${showBytes(size)}, in ${showSince(begin)}`);
    return { path, size, digest };
  } catch (error) {
    await rm(path, { force: true });
    // Whatever stumbled over the end tells of it in its own words.
    signal.throwIfAborted();
    throw error;
  } finally {
    await rm(fetched, { recursive: true, force: true });
  }
}

async function make(
  source: SifSource,
  options: ConvertOptions,
  fetched: string,
  path: string,
): Promise<Digest> {
  const { directory, limits, log, signal } = options;
  const space = createScratchSpace(limits, options.disk ?? unlimitedSpace.promise(0));
  const image = await gatherLayers(source, { directory: fetched, space, limits, log, signal });
  const wish = { ...wishOf(source, options.definition), scripts: image.scripts };
  const contents = contentsOf(source, wish);
  const createdAt = Math.floor(wish.createdAt / 1000);
  addRuntimeFiles(image.tree, runtimeFiles(wish), image.layers.length, createdAt);
  const offset = squashfsOffset(contents);
  const size = await squashImage(image, {
    ...{ directory, output, offset, space, log, signal },
    ...{ mksquashfs: options.mksquashfs, processors: options.processors },
    compression: options.compression ?? usualCompression,
    stallMs: options.stallMs ?? 600_000,
  });
  const signature = options.signer
    ? signSif(
        sifHead(contents, size),
        signedObjects,
        await hexDigest(path, offset, size, signal),
        options.signer,
      )
    : Buffer.alloc(0);
  await using file = await open(path, 'r+');
  await file.write(sifHead(contents, size, signature.length), 0, offset, 0);
  await file.write(signature, 0, signature.length, offset + size);
  const end = offset + size + signature.length;
  return `sha256:${await hexDigest(path, 0, end, signal)}` as Digest;
}

function wishOf({ config, architecture }: SifSource, definition: DefinitionRuntime): RuntimeWish {
  const runtime = asObject(config[memberName(config, 'config')]) ?? {};
  const created = config[memberName(config, 'created')];
  const createdAt = typeof created === 'string' ? Date.parse(created) : 0;
  // Some tools write the year 1, for which the file has no number.
  return { config: runtime, architecture, createdAt: Math.max(createdAt || 0, 0), definition };
}

function contentsOf({ layers, config }: SifSource, wish: RuntimeWish): SifContents {
  const { architecture, createdAt, definition } = wish;
  return {
    definition: definition.text,
    inspectMetadata: inspectMetadata(wish),
    ociConfig: wish.config,
    ...{ architecture, createdAt },
    id: idOf([layers.map(({ digest }) => digest), config, architecture, definition]),
  };
}

/** An id for what went into the file: a UUID of version 8. Source: RFC 9562, section 5.8. */
function idOf(parts: readonly unknown[]): Uint8Array {
  const id = createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, 16);
  id.writeUInt8((id.readUInt8(6) & 0x0f) | 0x80, 6);
  id.writeUInt8((id.readUInt8(8) & 0x3f) | 0x80, 8);
  return id;
}

/** SHA-256 of a part of a file. */
async function hexDigest(
  path: string,
  start: number,
  size: number,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash('sha256');
  const source = fileSource({ open: () => open(path, 'r'), start, end: start + size - 1 });
  await drain(source, bytes => {
    signal.throwIfAborted();
    hash.update(bytes);
  });
  return hash.digest('hex');
}
