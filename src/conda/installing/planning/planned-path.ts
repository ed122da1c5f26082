import type { UnpackedContent } from '../../archives/entries/entry-table.ts';
import type { ListedPath } from '../metadata/listed-path.ts';
import type { EntryPoint } from '../metadata/python-command.ts';

/** A path of the package in the environment, and what is installed there. */
export interface PlannedPath {
  /** Number of the path: others have others. */
  readonly index: number;
  /** Relative to the prefix. */
  readonly path: string;
  /** The path that another package keeps; undefined if this package keeps it. */
  readonly originalPath?: string;
  readonly source: PlannedFile | PlannedLink | PlannedDirectory | PlannedScript;
}

export interface PlannedFile {
  readonly kind: 'file';
  readonly listed: ListedPath;
  readonly content: UnpackedContent;
}

export interface PlannedLink {
  readonly kind: 'symlink';
  readonly listed: ListedPath;
  readonly link: string;
  /** Seconds since the epoch. */
  readonly mtime: number;
}

export interface PlannedDirectory {
  readonly kind: 'directory';
  readonly listed: ListedPath;
}

export interface PlannedScript {
  readonly kind: 'script';
  readonly entryPoint: EntryPoint;
}
