import { checkedPath } from '../../archives/archive-path.ts';
import { ArchiveProblem, showPath } from '../../archives/archive-problem.ts';
import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';
import type { ListedPath, Placeholder } from './listed-path.ts';
import { listedInOldFiles } from './old-lists.ts';
import { isObject, type PackageDocuments } from './package-documents.ts';

const types: ReadonlySet<unknown> = new Set(['hardlink', 'softlink', 'directory']);
const modes: ReadonlySet<unknown> = new Set(['text', 'binary']);

/**
 * Returns the paths that a package installs: those of `info/paths.json`, in older packages those of `info/files`. What is
 * in the archive and not listed is not installed. Throws `ArchiveProblem` for a damaged list.
 */
export function listedPaths(documents: PackageDocuments, archive: UnpackedArchive): ListedPath[] {
  const document = documents.json('paths.json');
  if (document === undefined) return listedInOldFiles(documents, archive);
  const { paths = [] } = document;
  if (!Array.isArray(paths)) throw damaged('');
  const listed = paths.map(readPath);
  const seen = new Set<string>();
  for (const { path } of listed) {
    if (seen.has(path)) throw new ArchiveProblem(`lists ${showPath(path)} twice`);
    seen.add(path);
  }
  return listed;
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
