import { hash, randomUUID } from 'node:crypto';
import { ArchiveProblem } from '../../archives/archive-checks.ts';
import type { CondaPackage } from '../../conda-package.ts';
import type { ArchiveSums } from '../installed-package.ts';
import type { PlannedPath } from '../plan-paths.ts';
import type { JsonObject } from './package-documents.ts';

const pieceMembers = 500;
/** Channel, subdirectory and file name. */
const urlPattern = /^(.*\/)([^/]+)\/([^/?#]+)(?:[?#].*)?$/s;
const safeName = /^[\w.+!~-]+$/;
// What rattler takes over from the index of a package, in its order.
const recordMembers = [
  ...['arch', 'build', 'build_number', 'constrains', 'depends', 'extra_depends', 'features'],
  ...['flags', 'license', 'license_family', 'md5', 'name', 'noarch', 'platform', 'purls'],
  ...['python_site_packages_path', 'sha256', 'size', 'subdir', 'timestamp', 'track_features'],
  'version',
];
const listMembers: ReadonlySet<string> = new Set(['constrains', 'flags']);

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
 *
 * Yields its text in pieces: with very many paths, it has tens of megabytes.
 */
export function* packageRecord(
  index: JsonObject,
  url: string,
  sums: ArchiveSums,
  paths: Pick<RecordedPaths, 'isEmpty' | 'paths'> & Iterable<RecordedPath>,
): Generator<string> {
  const [, channel = '', subdir = '', fileName = url] = urlPattern.exec(url) ?? [];
  const known: Record<string, unknown> = { depends: [], subdir, ...index, ...sums };
  const about = recordMembers.flatMap(key => {
    const value = recordedValue(key, known[key]);
    return value === undefined ? [] : [[key, value] as const];
  });
  // They stand for the lists, and are in no package.
  const [files, pathsData] = [randomUUID(), randomUUID()];
  const record = {
    ...Object.fromEntries(about),
    fn: fileName,
    url,
    channel,
    requested_specs: [],
    files: paths.isEmpty ? [] : [files],
    paths_data: { paths_version: 1, paths: paths.isEmpty ? [] : [pathsData] },
    link: { source: '', type: 1 },
  };
  const [start = '', rest = ''] = JSON.stringify(record, null, 2).split(`"${files}"`);
  const [middle = '', end = ''] = rest.split(`"${pathsData}"`);
  yield start;
  yield* jsonMembers(paths.paths(), path => JSON.stringify(path), '    ');
  yield middle;
  yield* jsonMembers(paths, path => JSON.stringify(path, null, 2), '      ');
  yield end;
}

/** Yields members of a list in an indented document, many at once. */
function* jsonMembers<T>(
  members: Iterable<T>,
  textOf: (member: T) => string,
  indent: string,
): Generator<string> {
  let texts: string[] = [];
  let start = '';
  const piece = () => start + texts.join(`,\n${indent}`);
  for (const member of members) {
    texts.push(textOf(member).replaceAll('\n', `\n${indent}`));
    if (texts.length < pieceMembers) continue;
    yield piece();
    start = `,\n${indent}`;
    texts = [];
  }
  if (texts.length > 0) yield piece();
}

function recordedValue(key: string, value: unknown): unknown {
  if (value === null || value === undefined) return undefined;
  if (key === 'noarch') return value === '' || value === false ? undefined : value;
  if (key === 'track_features') return featuresOf(value);
  return listMembers.has(key) && Array.isArray(value) && value.length === 0 ? undefined : value;
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

/** A file as it was written. */
export interface WrittenFile {
  /** Hex digits. */
  readonly sha256: string;
  /** Bytes. */
  readonly size: number;
}

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

/** What the record of a package says about its paths: made again each time that it is read. */
export class RecordedPaths implements Iterable<RecordedPath> {
  readonly #planned: readonly PlannedPath[];
  readonly #written = new Map<PlannedPath, WrittenFile>();

  constructor(planned: readonly PlannedPath[]) {
    this.#planned = planned;
  }

  get isEmpty(): boolean {
    return this.#planned.length === 0;
  }

  /** Notes a file that was not written as the archive contains it. */
  note(planned: PlannedPath, written: WrittenFile): void {
    this.#written.set(planned, written);
  }

  /** Yields the paths alone. */
  *paths(): Generator<string> {
    for (const { path } of this.#planned) yield path;
  }

  *[Symbol.iterator](): Generator<RecordedPath> {
    for (const planned of this.#planned) yield this.#recorded(planned);
  }

  #recorded(planned: PlannedPath): RecordedPath {
    const { path, originalPath, source } = planned;
    const start = {
      _path: path,
      ...(originalPath === undefined ? {} : { original_path: originalPath }),
    };
    const note = this.#written.get(planned);
    if (source.kind === 'directory') {
      return { ...start, path_type: 'directory', size_in_bytes: 0 };
    }
    if (source.kind === 'script') {
      const { sha256 = '', size = 0 } = note ?? {};
      return { ...start, path_type: 'unix_python_entry_point', sha256, size_in_bytes: size };
    }
    const { sha256, size, type, noLink, placeholder } = source.listed;
    if (source.kind === 'symlink') {
      return {
        ...start,
        path_type: 'softlink',
        ...recordedSums(sha256, hash('sha256', source.link, 'hex')),
        size_in_bytes: size ?? Buffer.byteLength(source.link),
      };
    }
    const written = note ?? source.content;
    const isLink = type === 'softlink';
    return {
      ...start,
      path_type: type,
      ...(noLink ? { no_link: true } : {}),
      // Rattler does not look at what a copied link led to.
      ...recordedSums(sha256, isLink ? (sha256 ?? written.sha256) : written.sha256),
      size_in_bytes: isLink ? (size ?? written.size) : written.size,
      ...(placeholder ? { file_mode: placeholder.mode, prefix_placeholder: placeholder.text } : {}),
    };
  }
}

/** @param listed by the package; @param inPrefix of the file as it is installed, of a link its target's name */
function recordedSums(listed: string | undefined, inPrefix: string) {
  return {
    ...(listed === undefined ? {} : { sha256: listed }),
    ...(listed === inPrefix ? {} : { sha256_in_prefix: inPrefix }),
  };
}
