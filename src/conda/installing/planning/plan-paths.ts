import { checkedPath, checkTarget, resolveLink } from '../../archives/archive-path.ts';
import { ArchiveProblem, showPath } from '../../archives/archive-problem.ts';
import type { UnpackedContent, UnpackedEntry } from '../../archives/entries/entry-table.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';
import type { InstallPlace, PythonPlace } from '../installed-package.ts';
import type { ListedEntry, ListedPath } from '../metadata/listed-path.ts';
import type { EntryPoint } from '../metadata/python-command.ts';
import { type PlannedEntry, PlannedPaths } from './planned-paths.ts';

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

/**
 * Returns the paths of a package in the environment, sorted name by name. Throws `ArchiveProblem` for a listed path that
 * the archive does not contain.
 */
export function planPaths({ name, listed, entryPoints, ...input }: PlanInput): PlannedPaths {
  const { archive, place, python } = input;
  // A command replaces a file of its name, and an earlier command.
  const commands = new Map(entryPoints.map(one => [`bin/${one.command}`, one]));
  const planned = new PlannedPaths(
    archive.entries,
    [...commands.values()],
    new Set(place.lostPaths),
    `__clobbers__/${name}/`,
  );
  for (const one of listed) {
    const { path: own } = one.listed;
    const path = python ? checkedPath(pythonPath(own, python)) : own;
    if (!commands.has(path)) planned.add(path, plannedEntry(one, path, archive));
  }
  planned.sort();
  return planned;
}

function pythonPath(path: string, { sitePackages }: PythonPlace): string {
  if (path.startsWith('site-packages/')) return sitePackages + path.slice('site-packages'.length);
  return path.replace(/^python-scripts\//, 'bin/');
}

function plannedEntry(
  { listed, entry }: ListedEntry,
  path: string,
  archive: UnpackedArchive,
): PlannedEntry {
  if (entry === undefined) {
    throw new ArchiveProblem(`lists ${showPath(listed.path)}, which it does not contain`);
  }
  const { kind, content, row, link } = entry;
  if ((listed.type === 'directory') !== (kind === 'directory')) throw mislisted(listed);
  if (kind === 'directory') return { row, listed };
  if (content !== undefined) {
    if (listed.type === 'softlink') throw mislisted(listed);
    checkContent(listed, content);
    return { row, listed, content };
  }
  if (listed.type === 'softlink' && listed.noLink) {
    return { row, listed, content: linkedContent(entry, archive), isCopied: true };
  }
  if (listed.placeholder !== undefined) throw mislisted(listed);
  checkTarget(path, link);
  return { row, listed };
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
