import type { UnpackedEntry } from '../../archives/unpacked-entries.ts';

/** A path that a package installs, as the package lists it. */
export interface ListedPath {
  /** Checked. */
  readonly path: string;
  readonly type: 'hardlink' | 'softlink' | 'directory';
  /** True for a file that is copied, and a link whose target is copied. */
  readonly noLink: boolean;
  /** Lower-case hex digits. */
  readonly sha256: string | undefined;
  /** Bytes. */
  readonly size: number | undefined;
  readonly placeholder: Placeholder | undefined;
}

/** Where the package was built, and how a file has it. */
export interface Placeholder {
  readonly text: string;
  readonly mode: 'text' | 'binary';
}

/** A listed path, and what the archive contains there. */
export interface ListedEntry {
  readonly listed: ListedPath;
  readonly entry: UnpackedEntry | undefined;
}
