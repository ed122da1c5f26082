import { type Attributes, paddedSize, type TarEntry } from '../../../archives/index.ts';
import { gnuHeader, tarEnd, tarPadding } from '../../../archives/tar-writer.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { type ConvertLimits, imageTooLarge } from '../limits.ts';
import type { Squashfs, SquashfsEntry } from '../squashfs/read/squashfs.ts';

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
