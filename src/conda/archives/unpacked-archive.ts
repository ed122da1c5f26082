import { createHash, hash } from 'node:crypto';
import { closeSync, fstatSync, openSync } from 'node:fs';
import type { TarEntry } from '../../images/sif/tar/tar-entry.ts';
import { TarReader } from '../../images/sif/tar/tar-reader.ts';
import { type ArchiveLimits, usualEntries } from './archive-limits.ts';
import { readBzip2Tar, readCondaParts, type TarSink } from './archive-parts.ts';
import { checkedPath, checkTarget, textOf } from './archive-path.ts';
import { ArchiveProblem, LargeArchive, showPath } from './archive-problem.ts';
import { EntryTable, type UnpackedContent, type UnpackedEntries } from './entries/entry-table.ts';
import { ScratchBytes } from './scratch-bytes.ts';

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
  readonly entries: EntryTable;
  readonly #limits: ArchiveLimits;
  readonly #maxBytes: number;
  readonly #scratch: ScratchBytes;
  readonly #isShared: boolean;
  #tarBytes = 0;
  #reader = this.#open();
  #current:
    | { row: number; size: number; rest: number; hash?: ReturnType<typeof createHash> }
    | undefined;

  constructor(archiveBytes: number, { limits, scratch, isShared = false }: UnpackOptions) {
    this.#isShared = isShared;
    this.#limits = limits;
    const byRatio = Math.max(limits.freeBytes, archiveBytes * limits.ratio);
    this.#maxBytes = Math.min(limits.unpackedBytes, byRatio);
    this.#scratch = new ScratchBytes(scratch);
    this.entries = EntryTable.open(limits.entries);
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
    this.entries[Symbol.dispose]();
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
        this.entries.directory(path, mtime);
        return false;
      case 'symlink': {
        const link = textOf(entry.link);
        checkTarget(path, link);
        this.entries.symlink(path, mtime, link);
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
    this.entries.hardLink(path, target, mtime);
  }

  #file(path: string, { size, mode, mtime, isSparse }: TarEntry): boolean {
    if (isSparse) throw new ArchiveProblem(`has a sparse file, ${showPath(path)}`);
    if (this.#scratch.size + size > this.#maxBytes) throw this.#tooLarge();
    const position = this.#scratch.size;
    const row = this.entries.file(path, { size, position, mode: mode & permissionBits, mtime });
    if (size === 0) this.entries.setDigest(row, hash('sha256', nothing, 'buffer'));
    else this.#current = { row, size, rest: size };
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
    if (own.length === current.size && own.length <= wholeBytes) {
      this.entries.setDigest(current.row, hash('sha256', own, 'buffer'));
      this.#current = undefined;
      return;
    }
    current.hash ??= createHash('sha256');
    current.hash.update(own);
    current.rest -= own.length;
    if (current.rest > 0) return;
    this.entries.setDigest(current.row, current.hash.digest());
    this.#current = undefined;
  }
}
