import { ArchiveProblem, checkedPath, showPath } from '../../archives/archive-checks.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';
import type { UnpackedEntry } from '../../archives/unpacked-entries.ts';
import type { PackageDocuments } from './package-documents.ts';

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

// Older packages were built there.
const oldPlaceholder = '/opt/anaconda1anaconda2anaconda3';
// A text in quotes with backslashes before quotes, or one without blanks.
const quotedOrPlain = String.raw`(?:"((?:\\.|[^"\\])*)"|(\S+))`;
const fullPattern = new RegExp(
  String.raw`^${quotedOrPlain}\s+(text|binary)\s+${quotedOrPlain}$`,
  'i',
);
const pathTypes = { file: 'hardlink', symlink: 'softlink', directory: 'directory' } as const;
const pathPattern = new RegExp(`^${quotedOrPlain}$`);

/**
 * Yields the paths of a package without `paths.json`: `info/files` lists them, `info/has_prefix` those with the path
 * where the package was built, `info/no_link` and `info/no_softlink` those that are copied.
 */
export function* listedInOldFiles(
  documents: PackageDocuments,
  { entries }: UnpackedArchive,
): Generator<ListedEntry> {
  const files = documents.lines('files');
  if (files === undefined) throw new ArchiveProblem('has neither info/paths.json nor info/files');
  const copied = new Set<string>();
  for (const name of ['no_link', 'no_softlink']) {
    for (const line of documents.lines(name) ?? []) {
      copied.add(line);
      checkCount(name, copied.size, entries.size);
    }
  }
  const placeholders = new Map<string, Placeholder>();
  for (const line of documents.lines('has_prefix') ?? []) {
    placeholders.set(...readPlaceholder(line));
    checkCount('has_prefix', placeholders.size, entries.size);
  }
  for (const line of files) {
    const path = checkedPath(line);
    const entry = entries.get(path);
    if (entry === undefined) throw new ArchiveProblem(`does not contain ${showPath(path)}`);
    if (entry.isListed) continue;
    entry.isListed = true;
    const listed = {
      path,
      type: pathTypes[entry.kind],
      noLink: copied.has(line),
      sha256: undefined,
      size: undefined,
      placeholder: placeholders.get(line),
    };
    yield { listed, entry };
  }
}

/** Throws `ArchiveProblem` for a list with more paths than the archive has. */
function checkCount(name: string, count: number, entries: number): void {
  if (count > entries)
    throw new ArchiveProblem(`lists more paths in info/${name} than it contains`);
}

function readPlaceholder(line: string): [path: string, placeholder: Placeholder] {
  const full = fullPattern.exec(line);
  if (full !== null) {
    const mode = full[3]?.toLowerCase() === 'binary' ? 'binary' : 'text';
    return [unquoted(full[4], full[5]), { text: unquoted(full[1], full[2]), mode }];
  }
  const path = pathPattern.exec(line);
  if (path === null) throw new ArchiveProblem(`has a damaged info/has_prefix, ${showPath(line)}`);
  return [unquoted(path[1], path[2]), { text: oldPlaceholder, mode: 'text' }];
}

function unquoted(quoted: string | undefined, plain: string | undefined): string {
  return quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '';
}
