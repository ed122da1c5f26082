import { checkTarget, resolveLink } from '../archives/archive-path.ts';
import { ArchiveProblem, showPath } from '../archives/archive-problem.ts';
import type {
  UnpackedArchive,
  UnpackedContent,
  UnpackedEntry,
} from '../archives/unpacked-archive.ts';
import type { InstallPlace, PythonPlace } from './installed-package.ts';
import type { ListedPath } from './metadata/listed-path.ts';
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

export interface PlanInput {
  readonly name: string;
  readonly listed: readonly ListedPath[];
  readonly entryPoints: readonly EntryPoint[];
  readonly archive: UnpackedArchive;
  readonly place: InstallPlace;
  /** For a `noarch: python` package. */
  readonly python: PythonPlace | undefined;
}

const maxLinks = 40;
/** Where package managers keep what they know of the environment. */
const ownPath = /^conda-meta(?:$|\/history(?:$|\/)|\/.*\.json(?:$|\/))/;

/**
 * Returns the paths of a package in the environment, sorted name by name. Throws `ArchiveProblem` for a listed path that
 * the archive does not contain, and a path below a link or file of the package.
 */
export function planPaths({ name, listed, entryPoints, ...input }: PlanInput): PlannedPath[] {
  const { archive, place, python } = input;
  const lost = new Set(place.lostPaths);
  const at = (path: string, source: PlannedPath['source']): PlannedPath =>
    lost.has(path)
      ? { path: `__clobbers__/${name}/${path}`, originalPath: path, source }
      : { path, source };
  // A command replaces a file of its name, and an earlier command.
  const commands = new Map(entryPoints.map(one => [`bin/${one.command}`, one]));
  const files = listed.flatMap(one => {
    const path = python ? pythonPath(one.path, python) : one.path;
    return commands.has(path) ? [] : [at(path, sourceOf(one, path, archive))];
  });
  const scripts = [...commands].map(([path, entryPoint]) =>
    at(path, { kind: 'script', entryPoint }),
  );
  const planned = [...files, ...scripts];
  const sorted = planned
    .map(one => ({ key: sortKey(one.path), one }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ one }) => one);
  checkTree(sorted);
  return sorted;
}

/** Sorts paths name by name, as bytes: a directory stands right before what is in it. */
function sortKey(path: string): string {
  return Buffer.from(path).toString('latin1').replaceAll('/', '\0');
}

function pythonPath(path: string, { sitePackages }: PythonPlace): string {
  if (path.startsWith('site-packages/')) return sitePackages + path.slice('site-packages'.length);
  return path.replace(/^python-scripts\//, 'bin/');
}

function sourceOf(
  listed: ListedPath,
  path: string,
  archive: UnpackedArchive,
): PlannedPath['source'] {
  const entry = archive.entries.get(listed.path);
  if (entry === undefined) {
    throw new ArchiveProblem(`lists ${showPath(listed.path)}, which it does not contain`);
  }
  const { kind, content, mtime, link } = entry;
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

function checkTree(sorted: readonly PlannedPath[]): void {
  let above: string | undefined;
  for (const [index, { path, source }] of sorted.entries()) {
    if (path === sorted[index - 1]?.path) {
      throw new ArchiveProblem(`installs ${showPath(path)} twice`);
    }
    if (ownPath.test(path)) {
      throw new ArchiveProblem(`installs ${showPath(path)}, where records of the environment are`);
    }
    if (above !== undefined && path.startsWith(`${above}/`)) {
      throw new ArchiveProblem(`has an entry ${showPath(path)} below a file or link`);
    }
    if (source.kind !== 'directory') above = path;
  }
}

function mislisted({ path, type }: ListedPath): ArchiveProblem {
  return new ArchiveProblem(`lists ${showPath(path)} as a ${type}, which it is not`);
}
