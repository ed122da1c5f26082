import { createHash } from 'node:crypto';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesOf } from '../../archives/index.ts';
import { sizeText } from '../../foundation/text.ts';
import type { Digest } from '../../oci/digest.ts';
import { asObject, type JsonObject, memberName } from '../../oci/index.ts';
import type { Architecture } from '../../oci/naming.ts';
import { drain } from '../../storage/content/byte-source.ts';
import { fileSource } from '../../storage/content/index.ts';
import { type SpacePromise, unlimitedSpace } from '../../storage/directory/index.ts';
import { type ConvertLimits, createScratchSpace, showSince } from './conversion-limits.ts';
import { type SifContents, sifHead, signedObjects, squashfsOffset } from './format/sif-file.ts';
import { gatherLayers, type LayerSource } from './layers/gather.ts';
import { type ImageTree, partsOf } from './layers/tree.ts';
import type { DefinitionRuntime } from './runtime/definition-runtime.ts';
import {
  inspectMetadata,
  type RuntimeInput,
  runtimeFiles,
  type SifEntry,
} from './runtime/runtime-files.ts';
import { signSif } from './signing/sign-sif.ts';
import type { SifSigner } from './signing/signer.ts';
import { type Compression, usualCompression } from './squashfs/compression.ts';
import { squashImage } from './squashfs/squash-image.ts';

/** An image to convert to a SIF file. */
export interface SifSource extends LayerSource {
  /** The image config, the whole document. */
  readonly config: JsonObject;
  readonly architecture: Architecture;
}

export interface ConvertOptions {
  /** An empty directory for this conversion only. The caller removes it, including the finished file. */
  readonly directory: string;
  /** The definition recorded in the image; see `imageDefinition`. */
  readonly definition: DefinitionRuntime;
  readonly limits: ConvertLimits;
  /** Space on the disk of the directory. Default: unlimited. The caller releases it. */
  readonly disk?: SpacePromise;
  /** Signs the file. Default: no signature. */
  readonly signer?: SifSigner | undefined;
  /** Compression of the file system. Default: gzip. */
  readonly compression?: Compression | undefined;
  /** Number of compression threads. Default: the number of processors, at most 8. */
  readonly processors?: number;
  /** Receives progress messages, one line at a time. */
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
 * Converts an image to a SIF file, without root, without namespaces, and without unpacking its files to disk. The
 * same image and definition give the same bytes. Throws a {@link Fault}, or the signal's reason if it is aborted.
 * After an error, nothing runs any more, and the directory is empty again.
 */
export async function convertToSif(
  source: SifSource,
  options: ConvertOptions,
): Promise<ConvertedSif> {
  const { directory, signal, log } = options;
  const begin = performance.now();
  signal.throwIfAborted();
  const fetched = join(directory, 'layers');
  const path = join(directory, output);
  try {
    await mkdir(fetched);
    const digest = await make(source, options, fetched, path);
    const { size } = await stat(path);
    log(`made the SIF file, ${sizeText(size)}, in ${showSince(begin)}`);
    return { path, size, digest };
  } catch (error) {
    await rm(path, { force: true });
    // After an abort, the signal's reason replaces the error that the abort caused.
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
  const input = { ...runtimeInputOf(source, options.definition), scripts: image.scripts };
  const contents = contentsOf(source, input);
  const createdAt = Math.floor(input.createdAt / 1000);
  addRuntimeFiles(image.tree, runtimeFiles(input), image.layers.length, createdAt);
  const offset = squashfsOffset(contents);
  const size = await squashImage(image, {
    directory,
    output,
    offset,
    space,
    log,
    signal,
    processors: options.processors,
    compression: options.compression ?? usualCompression,
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

function runtimeInputOf(
  { config, architecture }: SifSource,
  definition: DefinitionRuntime,
): RuntimeInput {
  const runtime = asObject(config[memberName(config, 'config')]) ?? {};
  const created = config[memberName(config, 'created')];
  const createdAt = typeof created === 'string' ? Date.parse(created) : 0;
  // Some tools write the year 1, which the file format cannot represent.
  return { config: runtime, architecture, createdAt: Math.max(createdAt || 0, 0), definition };
}

function contentsOf({ layers, config }: SifSource, input: RuntimeInput): SifContents {
  const { architecture, createdAt, definition } = input;
  return {
    definition: definition.text,
    inspectMetadata: inspectMetadata(input),
    ociConfig: input.config,
    architecture,
    createdAt,
    id: idOf([layers.map(({ digest }) => digest), config, architecture, definition]),
  };
}

/** Returns an id derived from the inputs of the file: a UUID of version 8. Source: RFC 9562, section 5.8. */
function idOf(parts: readonly unknown[]): Uint8Array {
  const id = createHash('sha256').update(JSON.stringify(parts)).digest().subarray(0, 16);
  id.writeUInt8((id.readUInt8(6) & 0x0f) | 0x80, 6);
  id.writeUInt8((id.readUInt8(8) & 0x3f) | 0x80, 8);
  return id;
}

/** Returns the SHA-256 of a part of a file. */
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

/**
 * Adds files to the tree of an image, above all its layers. Follows symbolic links in their paths, as in an
 * unpacked image.
 *
 * @param layer a number greater than those of the layers
 * @param mtime seconds since the epoch
 */
function addRuntimeFiles(
  tree: ImageTree,
  entries: readonly SifEntry[],
  layer: number,
  mtime: number,
): void {
  for (const { path, kind, mode, content, target = '' } of entries) {
    const parts = partsOf(bytesOf(path));
    const name = parts.pop() ?? '';
    const parent = tree.make(parts, layer, mtime);
    if (kind !== 'file' && parent.children?.has(name)) continue;
    const bytes = kind === 'file' ? (content ?? Buffer.alloc(0)) : undefined;
    const inode = { kind, mode, mtime, size: bytes?.length ?? 0, bytes, target: bytesOf(target) };
    tree.put(parent, name, { ...inode, layer, entry: 0, device: undefined }, layer);
  }
}
