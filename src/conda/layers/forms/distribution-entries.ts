import { hash } from 'node:crypto';
import {
  attributePrefix,
  bytesOf,
  type StoredEntry,
  showName,
  sparseError,
  type TarEntry,
  TarError,
  type TarVisitor,
  textOfBytes,
  type WholeHeader,
} from '../../../archives/index.ts';
import { maxPathBytes } from '../../../archives/tar-limits.ts';
import { memberBytes } from '../gzip/gzip-members.ts';
import { asciiJson, type EstargzWriter, formFiles, membersOf, timeOf } from './estargz-writer.ts';

const tocKinds = {
  file: 'reg',
  directory: 'dir',
  symlink: 'symlink',
  link: 'hardlink',
  'character-device': 'char',
  'block-device': 'block',
  fifo: 'fifo',
} as const;

/** Files and directories of a layer. A lazy client reads the table of all of them into memory. */
const mostEntries = 500_000;
/** A directory that has no entry yet. */
const implicit = -1;
/** Bytes of an entry in the table. */
const mostAbout = memberBytes / 2;
/** 1 January of the year 1, and the end of 9999: what a table can say. */
const firstTime = -62_135_596_800;
const lastTime = 253_402_300_799;

/**
 * Passes the entries of any layer to a writer. Their headers stay as they are, byte by byte. The table describes all that a lazy
 * client reads of them: owners, devices, extended attributes. Throws {@link TarError} for a layer that a table cannot describe, or
 * that lazy clients would see in another way than those that unpack it.
 */
export class DistributionEntries implements TarVisitor {
  readonly #writer: Pick<EstargzWriter, 'begin' | 'content'>;
  readonly #limit: number;
  /** The paths so far, by their hashes: 0, or a hash of the header of a directory, or {@link implicit}. */
  readonly #paths = new Map<number, number>();
  #entries = 0;
  /** A directory whose parents are directories. */
  #lastParent = '';

  constructor(writer: Pick<EstargzWriter, 'begin' | 'content'>, limit = mostEntries) {
    this.#writer = writer;
    this.#limit = limit;
  }

  entry(entry: TarEntry, { whole }: StoredEntry): boolean {
    const { path, kind, size, isSparse } = entry;
    if (!whole) throw new Error('the reader must have the option withBlocks');
    if (isSparse) throw sparseError(path);
    this.#entries += 1;
    if (Math.max(this.#entries, this.#paths.size) > this.#limit) {
      throw new TarError(`has more than ${this.#limit} files and directories`);
    }
    if (path.length > maxPathBytes) {
      throw new TarError(`has a path of more than ${maxPathBytes} bytes, ${showName(path)}`);
    }
    const name = nameOf(path);
    // A layer that had the form before. The writer makes them.
    if (formFiles.includes(name)) return false;
    const isKnown = this.#learn(name, entry, whole);
    const about = isKnown ? undefined : aboutOf(entry, name, whole);
    const header = whole.blocks;
    this.#writer.begin({ header, about, file: kind === 'file' ? { name, size } : undefined });
    return size > 0;
  }

  content(bytes: Buffer): void {
    this.#writer.content(bytes);
  }

  /** Notes a path. Returns true for a directory that occurs again with the same header. */
  #learn(name: string, { path, kind, link }: TarEntry, { blocks }: WholeHeader): boolean {
    const parent = name.slice(0, Math.max(0, name.lastIndexOf('/')));
    if (parent !== this.#lastParent) this.#requireDirectories(parent, path);
    this.#lastParent = parent;
    const key = hashOf(name);
    const known = this.#paths.get(key);
    const now = kind === 'directory' ? hashOf(blocks) : 0;
    // The table has one entry for each path, and what the last one of several is depends on the program that reads it.
    if (known === 0 || (known !== undefined && now === 0)) {
      throw new TarError(`has ${showName(path)} twice`);
    }
    if (kind === 'link' && this.#paths.get(hashOf(nameOf(link))) !== 0) {
      throw new TarError(
        `has a hard link, ${showName(path)}, to a file that is not before it in the same layer`,
      );
    }
    this.#paths.set(key, now);
    return known === now;
  }

  #requireDirectories(parent: string, path: string): void {
    for (let end = parent.length; end > 0; end = parent.lastIndexOf('/', end - 1)) {
      const key = hashOf(parent.slice(0, end));
      const known = this.#paths.get(key);
      if (known === 0) throw new TarError(`has ${showName(path)} below what is not a directory`);
      // Those above it are known, too.
      if (known !== undefined) return;
      this.#paths.set(key, implicit);
    }
  }
}

/** Returns a path as lazy clients name it: without `.`, and without slashes at its ends. Throws {@link TarError}. */
function nameOf(path: string): string {
  const parts = utf8(path)
    .split('/')
    .filter(part => part !== '' && part !== '.');
  if (parts.includes('..')) throw new TarError(`has a path with '..', ${showName(path)}`);
  return parts.join('/');
}

/** Returns the text of bytes. Throws {@link TarError} for bytes that are not text: the table cannot have them. */
function utf8(bytes: string): string {
  const text = textOfBytes(bytes);
  if (bytesOf(text) !== bytes)
    throw new TarError(`has a name that is not UTF-8, ${showName(bytes)}`);
  return text;
}

function aboutOf(entry: TarEntry, name: string, { records, names }: WholeHeader): string {
  const { path, kind, size, link, mode, mtime, owner, device } = entry;
  if (!(mtime >= firstTime && mtime <= lastTime)) {
    throw new TarError(`has an entry with an impossible time, ${showName(path)}`);
  }
  const members = membersOf({
    name,
    type: tocKinds[kind],
    size,
    modtime: timeOf(entry),
    linkName: utf8(link),
    mode,
    uid: owner?.uid ?? 0,
    gid: owner?.gid ?? 0,
    userName: utf8(names.user),
    groupName: utf8(names.group),
    devMajor: device?.major ?? 0,
    devMinor: device?.minor ?? 0,
  });
  const attributes = [...records]
    .filter(([keyword]) => keyword.startsWith(attributePrefix))
    .map(([keyword, value]) => {
      const attribute = asciiJson(utf8(keyword.slice(attributePrefix.length)));
      return `${attribute}:"${Buffer.from(value, 'latin1').toString('base64')}"`;
    });
  const about = attributes.length === 0 ? members : `${members},"xattrs":{${attributes.join(',')}}`;
  if (about.length > mostAbout) {
    throw new TarError(`has an entry with too long names or attributes, ${showName(path)}`);
  }
  return about;
}

const bytesOfHash = 6;

/** Returns a hash of 48 bits and a mark that it is not 0. */
function hashOf(bytes: string | Buffer): number {
  return 1 + hash('sha256', bytes, 'buffer').readUIntBE(0, bytesOfHash);
}
