import { ArchiveProblem, showPath } from '../../archives/archive-problem.ts';
import type {
  UnpackedContent,
  UnpackedEntries,
  UnpackedEntry,
} from '../../archives/entries/entry-table.ts';
import { GrowingBytes } from '../../archives/entries/growing-bytes.ts';
import type { NamePlace } from '../../archives/entries/path-names.ts';
import type { ListedPath, Placeholder } from '../metadata/listed-path.ts';
import type { EntryPoint } from '../metadata/python-command.ts';
import type { PlannedPath } from './planned-path.ts';

/** What is kept of a listed path beside its entry. */
export interface PlannedEntry {
  readonly row: number;
  readonly listed: ListedPath;
  /** What is installed as a file. */
  readonly content?: UnpackedContent;
  /** True for a link that is copied: the content is that of its target. */
  readonly isCopied?: boolean;
}

/** Where package managers keep what they know of the environment. */
const ownPath = /^conda-meta(?:$|\/history(?:$|\/)|\/.*\.json(?:$|\/))/;
/** Layers delete files by such names. Source: OCI image specification, Image Layer Filesystem Changeset, Whiteouts. */
const whiteout = /(?:^|\/)\.wh\./;
const rowBytes = 32;
const types: readonly ListedPath['type'][] = ['hardlink', 'softlink', 'directory'];
const digestBytes = 32;
const flags = { noLink: 1, sha256: 2, size: 4, script: 8, copied: 16, lost: 32 } as const;
// Places of the members of a row.
const at = {
  flags: 0,
  type: 1,
  nameLength: 2,
  nameStart: 4,
  row: 8,
  copied: 12,
  size: 16,
  placeholder: 24,
} as const;

/**
 * The paths of a package in the environment, sorted name by name: outside of the heap, about 40 bytes each, beside those of
 * their entries. They are valid as long as the entries are.
 */
export class PlannedPaths {
  readonly #entries: UnpackedEntries;
  readonly #rows: GrowingBytes;
  readonly #lostPrefix: string;
  readonly #lost: ReadonlySet<string>;
  readonly #commands: readonly EntryPoint[];
  /** A package has one of them in very many files. */
  readonly #placeholders: Placeholder[] = [];
  /** By mode and text: their number, counted from 1. */
  readonly #known = new Map<string, number>();
  /** Digests that links are listed with: those of files are the same as of their content. */
  #sums: GrowingBytes | undefined;
  readonly #sumAt = new Map<number, number>();
  readonly #most: number;
  #order = new Uint32Array();
  #count = 0;
  #bytes = 0;

  /** @param lost paths that other packages keep: they are installed below the prefix */
  constructor(
    entries: UnpackedEntries,
    commands: readonly EntryPoint[],
    lost: ReadonlySet<string>,
    lostPrefix: string,
  ) {
    this.#entries = entries;
    this.#commands = commands;
    this.#lost = lost;
    this.#lostPrefix = lostPrefix;
    this.#most = entries.size + commands.length + 1;
    this.#rows = new GrowingBytes(this.#most * rowBytes);
    for (const [index, { command }] of commands.entries()) {
      const path = `bin/${command}`;
      this.#add(path, this.#placeOf(path, undefined), index, flags.script, 'hardlink');
    }
  }

  get count(): number {
    return this.#count;
  }

  /** Bytes of the files that are installed. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @param path of the entry in the environment, where no other package has it */
  add(path: string, { row, listed, content, isCopied = false }: PlannedEntry): void {
    const { noLink, sha256, size, type, placeholder } = listed;
    const own =
      (noLink ? flags.noLink : 0) |
      (sha256 === undefined ? 0 : flags.sha256) |
      (size === undefined ? 0 : flags.size) |
      (isCopied ? flags.copied : 0);
    const place = this.#placeOf(path, listed.path === path ? row : undefined);
    const index = this.#add(path, place, row, own, type);
    const base = index * rowBytes;
    this.#rows.words[(base + at.copied) >> 2] = isCopied && content ? content.row : 0;
    this.#rows.doubles[(base + at.size) >> 3] = size ?? 0;
    this.#rows.words[(base + at.placeholder) >> 2] = placeholder ? this.#numberOf(placeholder) : 0;
    if (sha256 !== undefined && (isCopied || content === undefined)) {
      this.#sums ??= new GrowingBytes(this.#most * digestBytes);
      const sum = this.#sums.extend(digestBytes);
      this.#sums.view.write(sha256, sum, 'hex');
      this.#sumAt.set(index, sum);
    }
    this.#bytes += content?.size ?? 0;
  }

  /** Sorts the paths. Nothing is added any more. */
  sort(): void {
    const places = (one: number, other: number) =>
      this.#entries.names.compare(this.#nameOf(one), this.#nameOf(other));
    this.#order = Uint32Array.from({ length: this.#count }, (_, index) => index).sort(places);
  }

  /**
   * Yields the paths in their order, each directory before what is in it. Throws `ArchiveProblem` for two of one name, for a
   * path below a link or file, and for a name that means something else in a layer.
   */
  *[Symbol.iterator](): Generator<PlannedPath> {
    let above: string | undefined;
    let before: string | undefined;
    for (const index of this.#order) {
      const planned = this.#planned(index);
      const { path, source } = planned;
      if (path === before) throw new ArchiveProblem(`installs ${showPath(path)} twice`);
      if (ownPath.test(path)) {
        throw new ArchiveProblem(
          `installs ${showPath(path)}, where records of the environment are`,
        );
      }
      if (whiteout.test(path)) {
        throw new ArchiveProblem(`installs ${showPath(path)}, a name by which layers delete files`);
      }
      if (above !== undefined && path.startsWith(`${above}/`)) {
        throw new ArchiveProblem(`has an entry ${showPath(path)} below a file or link`);
      }
      before = path;
      if (source.kind !== 'directory') above = path;
      yield planned;
    }
  }

  /** Yields the paths alone, in the same order. */
  *paths(): Generator<string> {
    for (const index of this.#order) yield this.#entries.names.text(this.#nameOf(index));
  }

  #planned(index: number): PlannedPath {
    const { view } = this.#rows;
    const base = index * rowBytes;
    const own = view.readUInt8(base + at.flags);
    const row = this.#rows.words[(base + at.row) >> 2] as number;
    const path = this.#entries.names.text(this.#nameOf(index));
    const isLost = (own & flags.lost) !== 0;
    const named = {
      index,
      path,
      ...(isLost ? { originalPath: path.slice(this.#lostPrefix.length) } : {}),
    };
    if ((own & flags.script) !== 0) {
      const entryPoint = this.#commands[row] as EntryPoint;
      return { ...named, source: { kind: 'script', entryPoint } };
    }
    const entry = this.#entries.at(row);
    const placeholder =
      this.#placeholders[(this.#rows.words[(base + at.placeholder) >> 2] ?? 0) - 1];
    const sha256 = (own & flags.sha256) === 0 ? undefined : this.#sumOf(index, entry);
    const listed: ListedPath = {
      path: entry.path,
      type: types[view.readUInt8(base + at.type)] as ListedPath['type'],
      noLink: (own & flags.noLink) !== 0,
      ...(sha256 === undefined ? {} : { sha256 }),
      ...((own & flags.size) !== 0
        ? { size: this.#rows.doubles[(base + at.size) >> 3] as number }
        : {}),
      ...(placeholder ? { placeholder } : {}),
    };
    const copied = this.#rows.words[(base + at.copied) >> 2] as number;
    const isCopied = (own & flags.copied) !== 0;
    const content = isCopied ? this.#entries.at(copied).content : entry.content;
    if (content) return { ...named, source: { kind: 'file', listed, content } };
    if (entry.kind === 'directory') return { ...named, source: { kind: 'directory', listed } };
    const { link, mtime } = entry;
    return { ...named, source: { kind: 'symlink', listed, link, mtime } };
  }

  #add(path: string, place: NamePlace, row: number, own: number, type: ListedPath['type']): number {
    const base = this.#rows.extend(rowBytes);
    const { view } = this.#rows;
    view.writeUInt8(own | (this.#lost.has(path) ? flags.lost : 0), base + at.flags);
    view.writeUInt8(types.indexOf(type), base + at.type);
    this.#rows.shorts[(base + at.nameLength) >> 1] = place.length;
    this.#rows.words[(base + at.nameStart) >> 2] = place.start;
    this.#rows.words[(base + at.row) >> 2] = row;
    this.#count += 1;
    return base / rowBytes;
  }

  /** @param row the entry with this path, if there is one: its name is used */
  #placeOf(path: string, row: number | undefined): NamePlace {
    if (this.#lost.has(path)) return this.#entries.names.add(this.#lostPrefix + path);
    return row === undefined ? this.#entries.names.add(path) : this.#entries.nameOf(row);
  }

  #sumOf(index: number, { content }: UnpackedEntry): string | undefined {
    const sum = this.#sumAt.get(index);
    if (sum === undefined) return content?.sha256;
    return this.#sums?.view.toString('hex', sum, sum + digestBytes);
  }

  #nameOf(index: number): NamePlace {
    const base = index * rowBytes;
    const start = this.#rows.words[(base + at.nameStart) >> 2] as number;
    return { start, length: this.#rows.shorts[(base + at.nameLength) >> 1] as number };
  }

  #numberOf(placeholder: Placeholder): number {
    const key = `${placeholder.mode} ${placeholder.text}`;
    const known = this.#known.get(key) ?? this.#placeholders.push(placeholder);
    this.#known.set(key, known);
    return known;
  }
}
