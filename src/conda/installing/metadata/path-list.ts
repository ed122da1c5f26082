import { checkedPath } from '../../archives/archive-path.ts';
import { ArchiveProblem, showPath } from '../../archives/archive-problem.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';
import type { ListedEntry, ListedPath, Placeholder } from './listed-path.ts';
import { listedInOldFiles } from './old-lists.ts';
import { isObject, type PackageDocuments } from './package-documents.ts';

const types: ReadonlySet<unknown> = new Set(['hardlink', 'softlink', 'directory']);
const modes: ReadonlySet<unknown> = new Set(['text', 'binary']);

/**
 * Yields the paths that a package installs, each once: those of `info/paths.json`, in older packages those of `info/files`.
 * What is in the archive and not listed is not installed. Throws `ArchiveProblem` for a damaged list.
 */
export function listedPaths(
  documents: PackageDocuments,
  archive: UnpackedArchive,
): Iterable<ListedEntry> {
  const items = documents.items('paths.json', 'paths');
  return items ? readPaths(items, archive) : listedInOldFiles(documents, archive);
}

function* readPaths(
  items: Iterable<unknown>,
  { entries }: UnpackedArchive,
): Generator<ListedEntry> {
  for (const item of items) {
    const listed = readPath(item);
    const entry = entries.get(listed.path);
    if (entry && !entries.mark(entry.row)) {
      throw new ArchiveProblem(`lists ${showPath(listed.path)} twice`);
    }
    yield { listed, entry };
  }
}

function readPath(value: unknown): ListedPath {
  if (!isObject(value) || typeof value._path !== 'string') throw damaged('');
  const path = checkedPath(value._path);
  const { path_type: type, no_link: noLink = false, sha256, size_in_bytes: size } = value;
  if (path === '' || !types.has(type) || typeof noLink !== 'boolean') throw damaged(path);
  if (sha256 !== undefined && sha256 !== null && !isSha256(sha256)) throw damaged(path);
  if (size !== undefined && size !== null && !Number.isSafeInteger(size)) throw damaged(path);
  const { prefix_placeholder: text, file_mode: mode } = value;
  const isPatched = typeof text === 'string' && modes.has(mode);
  return {
    ...{ path, type: type as ListedPath['type'], noLink },
    ...(isSha256(sha256) ? { sha256: sha256.toLowerCase() } : {}),
    ...(typeof size === 'number' ? { size } : {}),
    ...(isPatched ? { placeholder: { text, mode: mode as Placeholder['mode'] } } : {}),
  };
}

function isSha256(value: unknown): value is string {
  return typeof value === 'string' && /^[\da-f]{64}$/i.test(value);
}

function damaged(path: string): ArchiveProblem {
  return new ArchiveProblem(
    `has a damaged info/paths.json${path === '' ? '' : `, at ${showPath(path)}`}`,
  );
}
