import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Attributes, paddedSize, type TarEntry } from '../../archives/index.ts';
import { gnuHeader, tarEnd, tarPadding } from '../../archives/tar-writer.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { createSteadyZstd } from '../../foundation/steady-zstd.ts';
import { sizeText } from '../../foundation/text.ts';
import type { Digest } from '../../oci/digest.ts';
import { asObject, type Document, documentOf, parseJson } from '../../oci/index.ts';
import { mediaTypes } from '../../oci/media-type.ts';
import { OciSyntaxError } from '../../oci/naming.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import { createFlowHash } from '../../storage/hashing/index.ts';
import { type ConvertLimits, imageTooLarge, showSince } from './conversion-limits.ts';
import { type RangeReader, readSif } from './format/read-sif.ts';
import { brokenSif } from './format/record.ts';
import { openSquashfs, type Squashfs, type SquashfsEntry } from './squashfs/read/squashfs.ts';

/** A container image with the files of a SIF file in its one layer. */
export interface BaseOfSif {
  readonly manifest: Document;
  readonly config: Document;
  /** In the content store. */
  readonly layer: Digest;
}

export interface BaseOptions {
  /** How messages call the SIF file. */
  readonly name: string;
  /** What the build is for, in Go's names. */
  readonly architecture: string;
  readonly content: Pick<ContentStore, 'ingest'>;
  readonly limits: ConvertLimits;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

const layerType = 'application/vnd.oci.image.layer.v1.tar+zstd';

/**
 * Makes an image to build from of a SIF file; its labels are those of the image. Nothing is unpacked on the disk. The
 * same file gives an image with the same files. Throws a {@link Fault} for a file that is broken, or too large, or for
 * another architecture.
 */
export async function baseOfSif(path: string, options: BaseOptions): Promise<BaseOfSif> {
  const { name, architecture, log, signal } = options;
  const begin = performance.now();
  await using file = await open(path, 'r');
  const sif = await readSif(rangesOf(file));
  if (sif.architecture !== undefined && sif.architecture !== architecture) {
    throw new Fault(
      'bad-request',
      `${name} is for ${sif.architecture}, and the build is for ${architecture}: set 'containerPlatform' to the platform of the base`,
      { phase: 'build' },
    );
  }
  if (!sif.squashfs) {
    throw new Fault(
      'bad-request',
      `${name} has no squashfs that can be read (it may be encrypted, or an OCI-SIF file): build it again with 'apptainer build', without --encrypt`,
      { phase: 'build' },
    );
  }
  const { offset, size } = sif.squashfs;
  if (offset + size > (await file.stat()).size) brokenSif('it ends before its file system does');
  const partition: RangeReader = (at, length) =>
    rangesOf(file)(offset + at, Math.min(length, size - at));
  const { maxUnpackedBytes } = options.limits;
  const squashfs = await openSquashfs(partition, size, maxUnpackedBytes);
  const notes: BaseNotes = { leftOut: 0, entries: 0, bytes: 0 };
  const tar = baseLayer(squashfs, options.limits, notes, signal);
  const { diffId, layer } = await pack(tar, options);
  log(`read ${name}, ${notes.entries} entries, ${sizeText(notes.bytes)}, in ${showSince(begin)}`);
  if (notes.leftOut > 0) log(`left out ${notes.leftOut} devices, sockets and names like .wh.*`);
  const created = new Date(squashfs.time * 1000).toISOString();
  const config = json(mediaTypes.ociConfig, {
    created,
    architecture,
    os: 'linux',
    config: { Labels: labelsIn(notes.labels) },
    rootfs: { type: 'layers', diff_ids: [diffId] },
    history: [{ created, created_by: 'Singularity image' }],
  });
  const manifest = json(mediaTypes.ociManifest, {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: { mediaType: config.mediaType, digest: config.digest, size: config.bytes.length },
    layers: [{ mediaType: layerType, ...layer }],
  });
  return { manifest, config, layer: layer.digest };
}

/** Compresses a tar file lightly into the content store: it goes to the builder once. */
async function pack(
  tar: AsyncGenerator<Buffer>,
  { content, signal }: Pick<BaseOptions, 'content' | 'signal'>,
) {
  const ingest = await content.ingest();
  const hash = createFlowHash('sha256');
  try {
    await pipeline(
      Readable.from(tar, { objectMode: true, highWaterMark: 2 }),
      async function* hashed(pieces: AsyncIterable<Buffer>) {
        for await (const piece of pieces) {
          await hash.update(piece);
          yield piece;
        }
      },
      createSteadyZstd(1),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) await ingest.write(chunk);
      },
      { signal },
    );
    const diffId = `sha256:${await hash.digest()}` as Digest;
    const { size } = ingest;
    return { diffId, layer: { digest: await ingest.commit(), size } };
  } catch (error) {
    hash.abort();
    await ingest.abort();
    throw error;
  }
}

function rangesOf(file: FileHandle): RangeReader {
  return async (offset, length) => {
    const { buffer, bytesRead } = await file.read(
      Buffer.allocUnsafe(Math.max(length, 0)),
      ...([0, Math.max(length, 0), offset] as const),
    );
    return buffer.subarray(0, bytesRead);
  };
}

/** The labels of a file that anybody may have written. */
function labelsIn(text: string | undefined): Record<string, string> {
  if (text === undefined) return {};
  try {
    const labels = asObject(parseJson(Buffer.from(text), 'config')) ?? {};
    const entries = Object.entries(labels);
    return Object.fromEntries(
      entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    );
  } catch (error) {
    if (error instanceof OciSyntaxError) return {};
    throw error;
  }
}

function json(mediaType: string, body: object): Document {
  return documentOf(Buffer.from(JSON.stringify(body)), mediaType);
}

/** What is noted while the files go by. */
export interface BaseNotes {
  /** The labels of the image, the text of their file. */
  labels?: string;
  /** Files that have no place in a layer: sockets, devices, and names that a layer has for removed files. */
  leftOut: number;
  /** Names. */
  entries: number;
  /** Of the tar file. */
  bytes: number;
}

const labelsPath = '.singularity.d/labels.json';
const maxLabels = 256 * 1024;
const maxLinkedNames = 64 * 1024 * 1024;
const pieceBytes = 256 * 1024;
const whiteout = '.wh.';

/**
 * The tar file of a layer with the files of a squashfs: their modes, owners, times, links and attributes. The same
 * squashfs gives the same bytes. Throws a `Fault` for what breaks the format, and for more than the limits.
 */
export async function* baseLayer(
  squashfs: Squashfs,
  limits: Pick<ConvertLimits, 'maxEntries' | 'maxUnpackedBytes'>,
  notes: BaseNotes,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const linked = new LinkedNames();
  let parts: Buffer[] = [];
  let waiting = 0;
  const add = (bytes: Buffer) => {
    parts.push(bytes);
    waiting += bytes.length;
  };
  const piece = () => {
    const bytes = Buffer.concat(parts, waiting);
    parts = [];
    waiting = 0;
    return bytes;
  };
  for (const entry of squashfs.entries(limits.maxEntries)) {
    await pauseTurn();
    signal.throwIfAborted();
    const header = headerOf(squashfs, entry, linked);
    if (!header) {
      notes.leftOut += 1;
      continue;
    }
    const head = gnuHeader(header);
    notes.entries += 1;
    notes.bytes += head.length + paddedSize(header.size);
    if (notes.bytes > limits.maxUnpackedBytes) {
      throw imageTooLarge(`${limits.maxUnpackedBytes} unpacked bytes`, 'maxUnpackedBytes');
    }
    add(head);
    const isLabels = entry.path === labelsPath && header.size <= maxLabels;
    const labels: Buffer[] = [];
    if (header.size > 0) {
      for await (const block of squashfs.content(entry.inode)) {
        if (isLabels) labels.push(Buffer.from(block));
        add(block);
        if (waiting >= pieceBytes) yield piece();
        signal.throwIfAborted();
      }
      add(tarPadding(header.size));
    }
    if (isLabels) notes.labels = Buffer.concat(labels).toString('utf8');
    if (waiting >= pieceBytes) yield piece();
  }
  add(tarEnd);
  yield piece();
}

/** The first names of files that have several. */
class LinkedNames {
  readonly #names = new Map<number, string>();
  #bytes = 0;

  find(place: number): string | undefined {
    return this.#names.get(place);
  }

  /** Throws a `Fault` where all of them together are too long to be kept in memory. */
  add(place: number, path: string): void {
    this.#bytes += path.length;
    if (this.#bytes > maxLinkedNames) throw imageTooLarge('64 MiB of names of hard links');
    this.#names.set(place, path);
  }
}

/** The header of an entry; undefined for one that has no place in a layer. */
function headerOf(
  squashfs: Squashfs,
  { path, inode, place }: SquashfsEntry,
  linked: LinkedNames,
): TarEntry | undefined {
  const { kind, mode, mtime, size, target, links } = inode;
  if (path.split('/').some(name => name.startsWith(whiteout))) return undefined;
  // No container may use devices of an image, and one of them means a removed file to overlay file systems.
  if (kind === 'socket' || kind === 'device') return undefined;
  const first = linked.find(place);
  const common = { path, mode, mtime, owner: squashfs.owner(inode) };
  if (first !== undefined) return { ...common, kind: 'link', size: 0, link: first };
  if (links > 1 && kind !== 'directory') linked.add(place, path);
  const attributes = squashfs.attributes(inode).filter(isKept);
  const described = attributes.length === 0 ? common : { ...common, attributes };
  switch (kind) {
    case 'directory':
      return { ...described, path: path === '' ? './' : path, kind, size: 0, link: '' };
    case 'file':
      return { ...described, kind, size, link: '' };
    case 'symlink':
      // Only root can give attributes to a link.
      return { ...common, kind, size: 0, link: target };
    case 'fifo':
      return { ...described, kind, size: 0, link: '' };
  }
}

/** Those of users, and rights of programs. What begins with `user.overlay.` means something to file systems. */
function isKept([name]: Attributes[number]): boolean {
  if (name.startsWith('user.overlay.')) return false;
  return name.startsWith('user.') || name === 'security.capability';
}
