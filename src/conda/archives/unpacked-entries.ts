import { ArchiveProblem } from './archive-checks.ts';

/** An entry of an unpacked archive. */
export interface UnpackedEntry {
  /** Path in the archive, checked: relative, without `..`. */
  readonly path: string;
  readonly kind: 'file' | 'symlink' | 'directory';
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Target of a symbolic link; empty for other kinds. */
  readonly link: string;
  /** Content of a file; hard links of one file share it. */
  readonly content: UnpackedContent | undefined;
  /** True once a list of the package named it. */
  isListed: boolean;
}

export interface UnpackedContent {
  /** True for content with several names. */
  isShared: boolean;
  /** Bytes. */
  readonly size: number;
  /** Where it is in the scratch bytes. */
  readonly position: number;
  /** Permissions, without setuid, setgid and sticky. */
  readonly mode: number;
  /** Seconds since the epoch. Of hard links, the last one's. */
  mtime: number;
  /** SHA-256, in hex; empty until all bytes are there. */
  sha256: string;
}

type NewEntry = Pick<UnpackedEntry, 'path' | 'kind' | 'mtime'> &
  Partial<Pick<UnpackedEntry, 'link' | 'content'>>;

/** Characters of all paths and link targets together: those of 75,000 entries have a fifth. */
const mostCharacters = 32 * 1024 * 1024;

/** The entries of an archive by their paths. With its place in the environment, an entry takes about 500 bytes, so their user limits how many there are. */
export class UnpackedEntries {
  readonly #byPath = new Map<string, UnpackedEntry>();
  #characters = 0;

  get size(): number {
    return this.#byPath.size;
  }

  get(path: string): UnpackedEntry | undefined {
    return this.#byPath.get(path);
  }

  /** Throws {@link ArchiveProblem} when all names are too long. */
  add({ path, kind, mtime, link = '', content }: NewEntry): void {
    this.#characters += path.length + link.length;
    if (this.#characters > mostCharacters) {
      throw new ArchiveProblem(`has names of more than ${mostCharacters} characters`);
    }
    this.#byPath.set(path, { path, kind, mtime, link, content, isListed: false });
  }

  /** Adds another name of a file or link. */
  addHardLink(path: string, target: UnpackedEntry, mtime: number): void {
    const { content } = target;
    if (content) [content.isShared, content.mtime] = [true, mtime];
    this.add({ ...target, path });
  }
}
