import {
  ArchiveProblem,
  checkedPath,
  checkTarget,
  resolveLink,
  showPath,
} from '../archives/archive-checks.ts';
import type { UnpackedArchive } from '../archives/unpacked-archive.ts';
import type { UnpackedContent, UnpackedEntry } from '../archives/unpacked-entries.ts';
import type { InstallPlace, PythonPlace } from './installed-package.ts';
import type { ListedEntry, ListedPath } from './metadata/listed-path.ts';
import type { EntryPoint } from './metadata/python-command.ts';

/** A path of the package in the environment, and what is installed there. */
export interface PlannedPath {
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

interface PlannedLink {
  readonly kind: 'symlink';
  readonly listed: ListedPath;
  readonly link: string;
  /** Seconds since the epoch. */
  readonly mtime: number;
}

interface PlannedDirectory {
  readonly kind: 'directory';
  readonly listed: ListedPath;
}

interface PlannedScript {
  readonly kind: 'script';
  readonly entryPoint: EntryPoint;
}

export interface PlanInput {
  readonly name: string;
  readonly listed: Iterable<ListedEntry>;
  readonly entryPoints: readonly EntryPoint[];
  readonly archive: UnpackedArchive;
  readonly place: InstallPlace;
  /** For a `noarch: python` package. */
  readonly python: PythonPlace | undefined;
}

const maxLinks = 40;
const slash = 0x2f;
/** Where package managers keep what they know of the environment. */
const ownPath = /^conda-meta(?:$|\/history(?:$|\/)|\/.*\.json(?:$|\/))/;
/** Layers delete files by such names. Source: OCI image specification, Image Layer Filesystem Changeset, Whiteouts. */
const whiteout = /(?:^|\/)\.wh\./;

/**
 * Returns the paths of a package in the environment, sorted name by name: each directory before what is in it. Throws
 * `ArchiveProblem` for a listed path that the archive does not contain, for two of one name, for a path below a link or file,
 * and for a name that means something else in a layer.
 */
export function planPaths({ name, listed, entryPoints, ...input }: PlanInput): PlannedPath[] {
  const { archive, place, python } = input;
  const lost = new Set(place.lostPaths);
  // A command replaces a file of its name, and an earlier command.
  const commands = new Map(entryPoints.map(one => [`bin/${one.command}`, one]));
  const planned: PlannedPath[] = [];
  const add = (path: string, source: PlannedPath['source']) => {
    const moved = { path: `__clobbers__/${name}/${path}`, originalPath: path, source };
    planned.push(lost.has(path) ? moved : { path, source });
  };
  for (const [path, entryPoint] of commands) add(path, { kind: 'script', entryPoint });
  for (const one of listed) {
    const { path: own } = one.listed;
    const path = python ? checkedPath(pythonPath(own, python)) : own;
    if (!commands.has(path)) add(path, plannedSource(one, path, archive));
  }
  planned.sort((one, other) => compareNames(one.path, other.path));
  checkPaths(planned);
  return planned;
}

/** Compares paths name by name, in the order of their bytes. */
export function compareNames(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const [first, second] = [one.charCodeAt(at), other.charCodeAt(at)];
    if (first !== second) return rankOf(first) - rankOf(second);
  }
  return one.length - other.length;
}

/** The end of a name comes before all characters, and halves of characters, which have four bytes, after all others. */
function rankOf(code: number): number {
  if (code === slash) return 0;
  return code >= 0xd800 && code <= 0xdfff ? code + 0x10000 : code;
}

/**
 * Throws `ArchiveProblem` for two paths of one name, for one below a file or link, and for a name that means something else in a
 * layer or in an environment.
 *
 * @param planned sorted
 */
export function checkPaths(
  planned: Iterable<{ readonly path: string; readonly source: { readonly kind: string } }>,
): void {
  let above: string | undefined;
  let before: string | undefined;
  for (const { path, source } of planned) {
    if (path === before) throw new ArchiveProblem(`installs ${showPath(path)} twice`);
    if (ownPath.test(path)) {
      throw new ArchiveProblem(`installs ${showPath(path)}, where records of the environment are`);
    }
    if (whiteout.test(path)) {
      throw new ArchiveProblem(`installs ${showPath(path)}, a name by which layers delete files`);
    }
    if (above !== undefined && path.startsWith(`${above}/`)) {
      throw new ArchiveProblem(`has an entry ${showPath(path)} below a file or link`);
    }
    before = path;
    if (source.kind !== 'directory') above = path;
  }
}

function pythonPath(path: string, { sitePackages }: PythonPlace): string {
  if (path.startsWith('site-packages/')) return sitePackages + path.slice('site-packages'.length);
  return path.replace(/^python-scripts\//, 'bin/');
}

function plannedSource(
  { listed, entry }: ListedEntry,
  path: string,
  archive: UnpackedArchive,
): PlannedPath['source'] {
  if (entry === undefined) {
    throw new ArchiveProblem(`lists ${showPath(listed.path)}, which it does not contain`);
  }
  const { kind, content, link, mtime } = entry;
  if ((listed.type === 'directory') !== (kind === 'directory')) throw mislisted(listed);
  if (kind === 'directory') return { kind, listed };
  if (content !== undefined) {
    if (listed.type === 'softlink') throw mislisted(listed);
    checkContent(listed, content);
    return { kind: 'file', listed, content };
  }
  if (listed.type === 'softlink' && listed.noLink) {
    return { kind: 'file', listed, content: linkedContent(entry, archive) };
  }
  if (listed.placeholder !== undefined) throw mislisted(listed);
  checkTarget(path, link);
  return { kind: 'symlink', listed, link, mtime };
}

function checkContent({ path, sha256, size }: ListedPath, content: UnpackedContent): void {
  if (size !== undefined && size !== content.size) {
    throw new ArchiveProblem(
      `lists ${showPath(path)} with ${size} bytes, but it has ${content.size}`,
    );
  }
  if (sha256 !== undefined && sha256 !== content.sha256) {
    throw new ArchiveProblem(`contains ${showPath(path)} with another digest than it lists`);
  }
}

/** Returns the content that a link with `no_link` leads to. */
function linkedContent(entry: UnpackedEntry, archive: UnpackedArchive): UnpackedContent {
  let current: UnpackedEntry | undefined = entry;
  for (let count = 0; current?.kind === 'symlink' && count < maxLinks; count += 1) {
    const target: string | undefined = resolveLink(current.path, current.link);
    current = target === undefined ? undefined : archive.entries.get(target);
  }
  if (current?.content) return current.content;
  throw new ArchiveProblem(
    `has a link ${showPath(entry.path)} that leads to no file of the package`,
  );
}

function mislisted({ path, type }: ListedPath): ArchiveProblem {
  return new ArchiveProblem(`lists ${showPath(path)} as a ${type}, which it is not`);
}
