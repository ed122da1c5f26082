import type { TarKind } from '../../archives/index.ts';

/** What a layer says about one path. */
export interface ListedEntry {
  /**
   * The names of the path, separated by NUL, one character for each byte; empty for the root. In the order of keys, a
   * directory is followed by everything below it.
   */
  readonly key: string;
  /** A whiteout removes the path of the layers below. */
  readonly kind: TarKind | 'whiteout';
  /** True if nothing of the layers below remains at and under this path. */
  readonly hides: boolean;
  /** True for a directory of which the layer says only that it {@link hides}. */
  readonly isImplicit: boolean;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Bytes of a file. */
  readonly size: number;
  /** Target of a link. */
  readonly link: string;
  /** First bytes of the SHA-256 of the content of a file; empty for other kinds and for an empty file. */
  readonly hash: string;
  readonly hasCapabilities: boolean;
  /** Bytes of earlier entries of the same path in the same layer, which nobody can see. */
  readonly twice: number;
}

/** How a name is joined to that of its directory in a key: lower than all characters of a name. */
export const keySeparator = '\0';

const entryKinds: readonly ListedEntry['kind'][] = [
  'file',
  'directory',
  'symlink',
  'link',
  'fifo',
  'character-device',
  'block-device',
  'whiteout',
];

/** Returns the number of a kind in a file. */
export function kindNumber(kind: ListedEntry['kind']): number {
  return entryKinds.indexOf(kind);
}

export function kindOfNumber(number: number): ListedEntry['kind'] {
  return entryKinds[number] ?? 'file';
}
