import { ArchiveProblem } from '../../archives/archive-problem.ts';
import type { CondaPackage } from '../../conda-package.ts';
import type { JsonObject } from './package-documents.ts';

/** A path in the record of an installed package. Members as in rattler, in its order. */
export interface RecordedPath {
  readonly _path: string;
  readonly original_path?: string;
  readonly path_type: 'hardlink' | 'softlink' | 'directory' | 'unix_python_entry_point';
  readonly no_link?: true;
  readonly sha256?: string;
  readonly sha256_in_prefix?: string;
  readonly size_in_bytes?: number;
  readonly file_mode?: 'text' | 'binary';
  readonly prefix_placeholder?: string;
}

/** Digests and size of an archive. */
export interface ArchiveSums {
  readonly sha256: string;
  readonly md5: string;
  readonly size: number;
}

/** Channel, subdirectory and file name. */
const urlPattern = /^(.*\/)([^/]+)\/([^/?#]+)(?:[?#].*)?$/;
const safeName = /^[\w.+!~-]+$/;
// What rattler takes over from the index of a package, in its order.
const members = [
  ...['arch', 'build', 'build_number', 'constrains', 'depends', 'extra_depends', 'features'],
  ...['flags', 'license', 'license_family', 'md5', 'name', 'noarch', 'platform', 'purls'],
  ...['python_site_packages_path', 'sha256', 'size', 'subdir', 'timestamp', 'track_features'],
  'version',
];
const lists: ReadonlySet<string> = new Set(['constrains', 'flags']);

/**
 * Checks that an archive contains the package that it should. Throws `ArchiveProblem` for another one, and for names that
 * cannot be part of a file name.
 */
export function checkIndex(index: JsonObject, { name, version, build }: CondaPackage): void {
  for (const [key, expected] of Object.entries({ name, version, build })) {
    const found = index[key];
    // Package managers write names in lower case, whatever the package does.
    const isSame = typeof found === 'string' && found.toLowerCase() === expected.toLowerCase();
    if (!isSame || !safeName.test(expected)) {
      const shown = JSON.stringify(found)?.slice(0, 120);
      throw new ArchiveProblem(`contains a package with ${key} ${shown}, not "${expected}"`);
    }
  }
}

/** Returns the path of a package's record, relative to the prefix. The index was checked. */
export function recordPath({ name, version, build }: JsonObject): string {
  return `conda-meta/${String(name).toLowerCase()}-${version}-${build}.json`;
}

/**
 * Returns the record of an installed package: what rattler writes to `conda-meta`, with these differences, since the same
 * archive from the same URL has the same record in every environment:
 *
 * - The members about the package are those of its own `info/index.json`, of its archive and its URL. Rattler takes those
 *   of the repository data, where the channel may have changed them since; a lock file does not have them.
 * - `requested_specs` is empty: the environment lists its packages and not the request.
 * - There is no `extracted_package_dir`, and the source of `link` is empty: no cache of packages is in the image.
 */
export function packageRecord(
  index: JsonObject,
  url: string,
  sums: ArchiveSums,
  paths: readonly RecordedPath[],
): Buffer {
  const [, channel = '', subdir = '', fileName = url] = urlPattern.exec(url) ?? [];
  const known: Record<string, unknown> = { depends: [], subdir, ...index, ...sums };
  const about = members.flatMap(key => {
    const value = recorded(key, known[key]);
    return value === undefined ? [] : [[key, value] as const];
  });
  const record = {
    ...Object.fromEntries(about),
    fn: fileName,
    url,
    channel,
    requested_specs: [],
    files: paths.map(({ _path }) => _path),
    paths_data: { paths_version: 1, paths },
    link: { source: '', type: 1 },
  };
  return Buffer.from(JSON.stringify(record, null, 2));
}

function recorded(key: string, value: unknown): unknown {
  if (value === null || value === undefined) return undefined;
  if (key === 'noarch') return value === '' || value === false ? undefined : value;
  if (key === 'track_features') return featuresOf(value);
  return lists.has(key) && Array.isArray(value) && value.length === 0 ? undefined : value;
}

function featuresOf(value: unknown): string | undefined {
  const list = Array.isArray(value) ? value.join(' ') : String(value);
  return (
    list
      .split(/[\s,]+/)
      .filter(Boolean)
      .join(' ') || undefined
  );
}
