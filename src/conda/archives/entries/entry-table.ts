import { GrowingBytes } from './growing-bytes.ts';
import { type NamePlace, PathNames } from './path-names.ts';

/** An entry of an unpacked archive. */
export interface UnpackedEntry {
  /** Number of the entry. */
  readonly row: number;
  /** Path in the archive, checked: relative, without `..`. */
  readonly path: string;
  readonly kind: EntryKind;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Target of a symbolic link; empty for other kinds. */
  readonly link: string;
  /** Content of a file; hard links of one file share it. */
  readonly content?: UnpackedContent;
}

export type EntryKind = 'file' | 'symlink' | 'directory';

export interface UnpackedContent {
  /** Number of the entry that brought it. */
  readonly row: number;
  /** True for content with several names. */
  readonly isShared: boolean;
  /** Bytes. */
  readonly size: number;
  /** Where it is in the scratch bytes. */
  readonly position: number;
  /** Permissions, without setuid, setgid and sticky. */
  readonly mode: number;
  /** Seconds since the epoch. Of hard links, the last one's. */
  readonly mtime: number;
  /** SHA-256, in hex. */
  readonly sha256: string;
}

/** The entries of an archive, as far as their readers see them. */
export interface UnpackedEntries {
  readonly size: number;
  /** Names of entries, and others that are sorted with them. */
  readonly names: PathNames;
  get(path: string): UnpackedEntry | undefined;
  has(path: string): boolean;
  at(row: number): UnpackedEntry;
  nameOf(row: number): NamePlace;
  /** Marks an entry; returns false if it was marked before. */
  mark(row: number): boolean;
}

const kinds: readonly EntryKind[] = ['file', 'symlink', 'directory'];
const rowBytes = 72;
const digestBytes = 32;
const marked = 1;
const shared = 2;
/** Memory that is kept for the next package: of about 20,000 files. */
const keptBytes = 4 * 1024 * 1024;

// Places of the members of a row. A link has the place of its target instead of a row and a mode.
const at = {
  kind: 0,
  flags: 1,
  mode: 2,
  nameStart: 4,
  nameLength: 8,
  content: 12,
  mtime: 16,
  size: 24,
  position: 32,
  digest: 40,
} as const;

let spare: EntryTable | undefined;

/** Entries of an archive outside of the heap, about 170 bytes each: packages have up to some hundred thousand. */
export class EntryTable implements UnpackedEntries, Disposable {
  readonly names = new PathNames(row => this.nameOf(row));
  readonly #rows: GrowingBytes;
  readonly #maxEntries: number;
  #count = 0;

  /** @param maxEntries more are not added by its user */
  static open(maxEntries: number): EntryTable {
    const table = spare;
    spare = undefined;
    return table && table.#maxEntries === maxEntries ? table : new EntryTable(maxEntries);
  }

  private constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
    this.#rows = new GrowingBytes((maxEntries + 1) * rowBytes);
  }

  get size(): number {
    return this.#count;
  }

  /** Adds a directory. */
  directory(path: string, mtime: number): void {
    this.#row(this.#add(path, 'directory', mtime));
  }

  symlink(path: string, mtime: number, link: string): void {
    const row = this.#add(path, 'symlink', mtime);
    const { start, length } = this.names.add(link);
    const base = row * rowBytes;
    this.#rows.words[(base + at.content) >> 2] = start;
    this.#rows.shorts[(base + at.mode) >> 1] = length;
    this.#row(row);
  }

  /** Adds a file without its digest; returns its row. */
  file(path: string, about: Pick<UnpackedContent, 'size' | 'position' | 'mode' | 'mtime'>): number {
    const row = this.#add(path, 'file', about.mtime);
    const base = row * rowBytes;
    this.#rows.shorts[(base + at.mode) >> 1] = about.mode;
    this.#rows.words[(base + at.content) >> 2] = row;
    this.#rows.doubles[(base + at.size) >> 3] = about.size;
    this.#rows.doubles[(base + at.position) >> 3] = about.position;
    this.#row(row);
    return row;
  }

  /** Adds another name of a file or link. */
  hardLink(path: string, target: UnpackedEntry, mtime: number): void {
    if (target.kind === 'symlink') {
      this.symlink(path, target.mtime, target.link);
      return;
    }
    const content = target.content?.row ?? target.row;
    const row = this.#add(path, 'file', target.mtime);
    const { view } = this.#rows;
    this.#rows.words[(row * rowBytes + at.content) >> 2] = content;
    const base = content * rowBytes;
    view.writeUInt8(view.readUInt8(base + at.flags) | shared, base + at.flags);
    this.#rows.doubles[(base + at.mtime) >> 3] = mtime;
    this.#row(row);
  }

  setDigest(row: number, digest: Uint8Array): void {
    this.#rows.view.set(digest, row * rowBytes + at.digest);
  }

  has(path: string): boolean {
    return this.names.find(path) !== undefined;
  }

  get(path: string): UnpackedEntry | undefined {
    const row = this.names.find(path);
    return row === undefined ? undefined : this.at(row);
  }

  at(row: number): UnpackedEntry {
    const { view } = this.#rows;
    const base = row * rowBytes;
    const kind = kinds[view.readUInt8(base + at.kind)] as EntryKind;
    const path = this.names.text(this.nameOf(row));
    const mtime = this.#double(base + at.mtime);
    if (kind === 'directory') return { row, path, kind, mtime, link: '' };
    if (kind === 'file') return { row, path, kind, mtime, link: '', content: this.#content(row) };
    const start = this.#word(base + at.content);
    const length = this.#short(base + at.mode);
    return { row, path, kind, mtime, link: this.names.text({ start, length }) };
  }

  nameOf(row: number): NamePlace {
    const base = row * rowBytes;
    const start = this.#word(base + at.nameStart);
    return { start, length: this.#short(base + at.nameLength) };
  }

  mark(row: number): boolean {
    const { view } = this.#rows;
    const place = row * rowBytes + at.flags;
    const flags = view.readUInt8(place);
    view.writeUInt8(flags | marked, place);
    return (flags & marked) === 0;
  }

  [Symbol.dispose](): void {
    if (this.#rows.reserved + this.names.reserved > keptBytes) return;
    this.#rows.clear();
    this.names.clear();
    this.#count = 0;
    spare = this;
  }

  #double(place: number): number {
    return this.#rows.doubles[place >> 3] as number;
  }

  #word(place: number): number {
    return this.#rows.words[place >> 2] as number;
  }

  #short(place: number): number {
    return this.#rows.shorts[place >> 1] as number;
  }

  #content(of: number): UnpackedContent {
    const { view } = this.#rows;
    const row = this.#word(of * rowBytes + at.content);
    const base = row * rowBytes;
    return {
      row,
      isShared: (view.readUInt8(base + at.flags) & shared) !== 0,
      size: this.#double(base + at.size),
      position: this.#double(base + at.position),
      mode: this.#short(base + at.mode),
      mtime: this.#double(base + at.mtime),
      sha256: view.toString('hex', base + at.digest, base + at.digest + digestBytes),
    };
  }

  #add(path: string, kind: EntryKind, mtime: number): number {
    const { start, length } = this.names.add(path);
    const base = this.#rows.extend(rowBytes);
    const { view } = this.#rows;
    view.fill(0, base, base + rowBytes);
    view.writeUInt8(kinds.indexOf(kind), base + at.kind);
    this.#rows.words[(base + at.nameStart) >> 2] = start;
    this.#rows.shorts[(base + at.nameLength) >> 1] = length;
    this.#rows.doubles[(base + at.mtime) >> 3] = mtime;
    return base / rowBytes;
  }

  /** Makes a row known. */
  #row(row: number): void {
    this.#count += 1;
    this.names.enter(row);
  }
}
