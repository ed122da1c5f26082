import { createHash, hash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { type TarEntry, TarReader } from '../../archives/index.ts';
import {
  type ArchiveLimits,
  ArchiveProblem,
  checkedPath,
  checkTarget,
  LargeArchive,
  maxWindowLog,
  showPath,
  textOf,
  usualEntries,
} from './archive-checks.ts';
import { Bzip2Decoder } from './bzip2/bzip2-decoder.ts';
import { ScratchBytes } from './scratch-bytes.ts';
import { type UnpackedContent, UnpackedEntries } from './unpacked-entries.ts';
import { readZipMembers, type ZipMember } from './zip-members.ts';
import { ZstdDecoder } from './zstd/zstd-decoder.ts';

export interface UnpackOptions {
  readonly limits: ArchiveLimits;
  /** Directory for files without names. */
  readonly scratch: string;
  readonly signal: AbortSignal;
  /** True when others are unpacked at the same time: {@link LargeArchive} is thrown for one that needs much memory. */
  readonly isShared?: boolean;
}

/** The files of an archive, with those of its metadata below `info/`. */
export interface UnpackedArchive extends Disposable {
  readonly entries: UnpackedEntries;
  /** Returns a part of a content. Up to 1 MiB of it are a view that is valid until the next call. */
  read(content: UnpackedContent, offset: number, length: number): Buffer;
}

/**
 * Unpacks a package archive. Returns its entries, whose content is in a scratch file. Throws `ArchiveProblem` or
 * `TarError` for a damaged or harmful archive, and errors of the file system. Blocks its thread for long.
 *
 * @param format the end of its file name
 */
export function unpackArchive(
  path: string,
  format: ArchiveFormat,
  options: UnpackOptions,
): UnpackedArchive {
  const fd = openSync(path, 'r');
  const unpacking = new Unpacking(fstatSync(fd).size, options);
  try {
    readers[format](fd, unpacking, options);
    return unpacking;
  } catch (error) {
    unpacking[Symbol.dispose]();
    throw error;
  } finally {
    closeSync(fd);
  }
}

const readers = { '.conda': readCondaParts, '.tar.bz2': readBzip2Tar } as const;

export type ArchiveFormat = keyof typeof readers;

const permissionBits = 0o777;
const nothing = Buffer.alloc(0);
/** A file up to this size is hashed at once. */
const wholeBytes = 256 * 1024;

class Unpacking implements UnpackedArchive, TarSink {
  readonly entries = new UnpackedEntries();
  readonly #limits: ArchiveLimits;
  readonly #maxBytes: number;
  readonly #scratch: ScratchBytes;
  readonly #isShared: boolean;
  #tarBytes = 0;
  #reader = this.#open();
  #current:
    | { content: UnpackedContent; rest: number; hash?: ReturnType<typeof createHash> }
    | undefined;

  constructor(archiveBytes: number, { limits, scratch, isShared = false }: UnpackOptions) {
    this.#isShared = isShared;
    this.#limits = limits;
    const byRatio = Math.max(limits.freeBytes, archiveBytes * limits.ratio);
    this.#maxBytes = Math.min(limits.unpackedBytes, byRatio);
    this.#scratch = new ScratchBytes(scratch);
  }

  write(bytes: Buffer): void {
    this.#tarBytes += bytes.length;
    if (this.#tarBytes > this.#maxBytes) throw this.#tooLarge();
    this.#reader.write(bytes);
  }

  end(): void {
    this.#reader.end();
    this.#reader = this.#open();
  }

  read({ size, position }: UnpackedContent, offset: number, length: number): Buffer {
    if (offset + length > size) throw new RangeError('reads past the end of a content');
    return this.#scratch.read(position + offset, length);
  }

  [Symbol.dispose](): void {
    this.#scratch[Symbol.dispose]();
  }

  #open(): TarReader {
    return new TarReader({
      entry: entry => this.#entry(entry),
      content: bytes => this.#content(bytes),
    });
  }

  #entry(entry: TarEntry): boolean {
    const path = checkedPath(textOf(entry.path));
    if (path === '') return false;
    const known = this.entries.get(path);
    if (known?.kind === 'directory' && entry.kind === 'directory') return false;
    if (known !== undefined) throw new ArchiveProblem(`has two entries ${showPath(path)}`);
    if (this.entries.size >= this.#limits.entries) {
      throw new ArchiveProblem(`has more than ${this.#limits.entries} entries`);
    }
    if (this.#isShared && this.entries.size >= usualEntries) throw new LargeArchive();
    const { mtime } = entry;
    switch (entry.kind) {
      case 'directory':
        this.entries.add({ path, kind: 'directory', mtime });
        return false;
      case 'symlink': {
        const link = textOf(entry.link);
        checkTarget(path, link);
        this.entries.add({ path, kind: 'symlink', mtime, link });
        return false;
      }
      case 'link':
        this.#hardLink(path, entry);
        return false;
      case 'file':
        return this.#file(path, entry);
      default:
        throw new ArchiveProblem(`has an entry that is not a file, ${showPath(path)}`);
    }
  }

  #hardLink(path: string, { link, mtime }: TarEntry): void {
    const target = this.entries.get(checkedPath(textOf(link)));
    if (target === undefined || target.kind === 'directory') {
      throw new ArchiveProblem(
        `has a hard link ${showPath(path)} whose target is not an earlier file, ${showPath(link)}`,
      );
    }
    this.entries.addHardLink(path, target, mtime);
  }

  #file(path: string, { size, mode, mtime, isSparse }: TarEntry): boolean {
    if (isSparse) throw new ArchiveProblem(`has a sparse file, ${showPath(path)}`);
    if (this.#scratch.size + size > this.#maxBytes) throw this.#tooLarge();
    const position = this.#scratch.size;
    const sha256 = size === 0 ? hash('sha256', nothing) : '';
    const permissions = mode & permissionBits;
    const content = { isShared: false, size, position, mode: permissions, mtime, sha256 };
    this.entries.add({ path, kind: 'file', mtime, content });
    if (size > 0) this.#current = { content, rest: size };
    return size > 0;
  }

  #tooLarge(): ArchiveProblem {
    return new ArchiveProblem(`has more than ${this.#maxBytes} bytes when it is unpacked`);
  }

  #content(bytes: Buffer): void {
    const current = this.#current;
    if (current === undefined) return;
    const own = bytes.subarray(0, current.rest);
    this.#scratch.append(own);
    if (own.length === current.content.size && own.length <= wholeBytes) {
      current.content.sha256 = hash('sha256', own);
      this.#current = undefined;
      return;
    }
    current.hash ??= createHash('sha256');
    current.hash.update(own);
    current.rest -= own.length;
    if (current.rest > 0) return;
    current.content.sha256 = current.hash.digest('hex');
    this.#current = undefined;
  }
}

/** Receives the bytes of a tar file. */
interface TarSink {
  write(bytes: Buffer): void;
  /** Ends one tar file; another one may follow. */
  end(): void;
}

interface ReadOptions {
  readonly signal: AbortSignal;
  /** Directory for a file without a name. */
  readonly scratch: string;
}

// A package has three members; their names are short.
const zipLimits = { members: 64, directoryBytes: 1024 * 1024 };
const maxMetadataBytes = 64 * 1024;
const formatVersion = 2;

/**
 * Reads the tar files of a `.conda` archive, the metadata of the package first. Throws `ArchiveProblem` for a damaged
 * archive. Source: conda, Package specification, version 2.
 */
function readCondaParts(fd: number, sink: TarSink, { signal, scratch }: ReadOptions): void {
  const members = readZipMembers(fd, zipLimits);
  for (const { name, isDeflated } of members) {
    if (isDeflated) {
      throw new ArchiveProblem(
        `has a compressed zip member, ${showPath(name)}, which must be stored`,
      );
    }
  }
  checkFormat(fd, members);
  for (const kind of ['info', 'pkg']) {
    const found = members.filter(({ name }) => name.startsWith(`${kind}-`));
    const [member] = found;
    if (member === undefined || found.length > 1 || !member.name.endsWith('.tar.zst')) {
      throw new ArchiveProblem(`must have one member ${kind}-*.tar.zst`);
    }
    readMember(fd, member, sink, { signal, scratch });
    sink.end();
  }
}

/**
 * Reads the tar file of a `.tar.bz2` archive. Throws `ArchiveProblem` for a damaged one. Source: conda, Package
 * specification, version 1.
 */
function readBzip2Tar(fd: number, sink: TarSink, { signal }: Pick<ReadOptions, 'signal'>): void {
  using decoder = new Bzip2Decoder();
  for (let position = 0; ; ) {
    signal.throwIfAborted();
    const { input } = decoder;
    const read = readSync(fd, input, 0, input.length, position);
    if (read === 0) break;
    position += read;
    for (const bytes of decoder.decompress(read)) sink.write(bytes);
  }
  decoder.end();
  sink.end();
}

function checkFormat(fd: number, members: readonly ZipMember[]): void {
  const member = members.find(({ name }) => name === 'metadata.json');
  if (member === undefined || member.size > maxMetadataBytes) {
    throw new ArchiveProblem('has no metadata.json');
  }
  const bytes = Buffer.alloc(member.size);
  readSync(fd, bytes, 0, member.size, member.start);
  let format: unknown;
  try {
    format = JSON.parse(bytes.toString());
  } catch {
    throw new ArchiveProblem('has a damaged metadata.json');
  }
  const version = (format as { conda_pkg_format_version?: unknown } | null)
    ?.conda_pkg_format_version;
  if (version !== formatVersion) {
    throw new ArchiveProblem(`has format version ${JSON.stringify(version)}, not ${formatVersion}`);
  }
}

function readMember(
  fd: number,
  { name, start, size, crc32: expected }: ZipMember,
  sink: TarSink,
  { signal, scratch }: ReadOptions,
): void {
  if (size === 0) throw new ArchiveProblem(`has an empty member, ${showPath(name)}`);
  using decoder = new ZstdDecoder(maxWindowLog, scratch);
  let sum = 0;
  for (let position = 0; position < size; ) {
    signal.throwIfAborted();
    const { input } = decoder;
    const most = Math.min(input.length, size - position);
    const read = readSync(fd, input, 0, most, start + position);
    if (read === 0) throw new ArchiveProblem(`has a cut member, ${showPath(name)}`);
    sum = crc32(input.subarray(0, read), sum);
    position += read;
    for (const bytes of decoder.decompress(read)) sink.write(bytes);
  }
  decoder.end();
  if (sum !== expected) throw new ArchiveProblem(`has a damaged zip member, ${showPath(name)}`);
}
