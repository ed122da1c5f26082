import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import {
  type ArchiveLimits,
  ArchiveProblem,
  archiveFault,
  archiveLimits,
  checkedPath,
  showPath,
} from '../archives/archive-checks.ts';
import {
  type ArchiveFormat,
  type UnpackedArchive,
  unpackArchive,
} from '../archives/unpacked-archive.ts';
import type { UnpackedEntry } from '../archives/unpacked-entries.ts';
import { type CondaPackage, mayDependOnPython } from '../conda-package.ts';
import type { ArchiveSums, InstalledPackage, InstallPlace } from './installed-package.ts';
import { LayerWriter } from './layer-writer.ts';
import {
  type ListedEntry,
  type ListedPath,
  listedInOldFiles,
  type Placeholder,
} from './metadata/listed-path.ts';
import { documentsOf, isObject, type PackageDocuments } from './metadata/package-documents.ts';
import { checkIndex, packageRecord, RecordedPaths, recordPath } from './metadata/package-record.ts';
import { entryPointsOf } from './metadata/python-command.ts';
import { planPaths } from './plan-paths.ts';
import type { TarOutput } from './prefix-writer.ts';

const sumBytes = 128 * 1024;
const archiveFormats = ['.conda', '.tar.bz2'] as const satisfies readonly ArchiveFormat[];

export interface InstallOptions {
  readonly signal: AbortSignal;
  /** Directory for a file without a name, which disappears with the process. */
  readonly scratch: string;
  /** Default: {@link archiveLimits}. */
  readonly limits?: ArchiveLimits;
  /** Called when the archive is unpacked, with the bytes of the files that are installed. */
  readonly onSize?: (bytes: number) => void;
  /**
   * Called with the path of each file and link relative to the prefix, in the order of the tar entries. `conda-meta` is not
   * one of them.
   */
  readonly onPath?: (path: string) => void;
  /** True when others are installed at the same time: `LargeArchive` is thrown for one that needs much memory. */
  readonly isShared?: boolean;
}

/**
 * Installs a package: writes the tar entries of its files, links and directories below the prefix, and of its record in
 * `conda-meta`, sorted and without the blocks that end a tar file. The same archive, URL and place give the same bytes
 * everywhere. Returns what the installation has shown. What was written before an error is useless.
 *
 * Paths, bytes, modes, links and times are those of rattler 0.55 (py-rattler 0.28), with these differences:
 *
 * - A package that lists directories gets them, as from conda; rattler fails.
 * - Records have mode 0644, not 0600: every user of the image may read them. `packageRecord` describes their content.
 * - What rattler writes with the time of the installation has a fixed time: commands, records.
 * - `CACHEDIR.TAG` is not written: the environment is no cache. `conda-meta/history` belongs to the environment.
 *
 * Files keep their times, so that the byte code in a package is valid; nothing is compiled.
 *
 * Blocks its thread for long: call it in a worker. The memory does not grow with the package. Throws a `Fault` for an
 * archive with another digest than the package has, one that is damaged, and one that would harm.
 *
 * @param archivePath the archive on disk
 */
export async function installPackage(
  archivePath: string,
  it: CondaPackage,
  place: InstallPlace,
  sink: TarOutput,
  options: InstallOptions,
): Promise<InstalledPackage> {
  try {
    return await install(archivePath, it, place, sink, options);
  } catch (error) {
    throw faultOf(error, it);
  }
}

async function install(
  archivePath: string,
  it: CondaPackage,
  place: InstallPlace,
  sink: TarOutput,
  { signal, scratch, limits = archiveLimits, onSize, onPath, isShared = false }: InstallOptions,
): Promise<InstalledPackage> {
  const sums = sumsOf(archivePath);
  checkSums(it, sums);
  const format = formatOf(it);
  using archive = unpackArchive(archivePath, format, { limits, scratch, signal, isShared });
  const documents = documentsOf(archive, limits);
  const { index, about } = documents;
  checkIndex(index, it);
  const python = index.noarch === 'python' ? pythonOf(it, place) : undefined;
  // What the layer has does not depend on how a channel spells the name: others use the same layer.
  const name = it.name.toLowerCase();
  const planned = planPaths({
    name,
    archive,
    place,
    python,
    listed: listedPaths(documents, archive),
    entryPoints: python ? entryPointsOf(documents) : [],
  });
  onSize?.(
    planned.reduce(
      (sum, { source }) => sum + (source.kind === 'file' ? source.content.size : 0),
      0,
    ),
  );
  const scripts = new LinkScripts(name);
  const recorded = new RecordedPaths(planned);
  const writer = new LayerWriter({ archive, place, python, limits, recorded, sink, signal });
  for (const one of planned) {
    await writer.path(one);
    const { path, originalPath = path, source } = one;
    scripts.see(originalPath);
    if (source.kind !== 'directory') onPath?.(path);
  }
  await writer.textFile(recordPath(index), () => packageRecord(index, it.url, sums, recorded));
  const linkScripts = scripts.found(archive);
  return { index, about, sums, variables: writer.variables, linkScripts };
}

/** The layer of a package that does not say so is taken for independent of Python: it would be used with every other one. */
function pythonOf(it: CondaPackage, { python }: InstallPlace) {
  if (!mayDependOnPython(it)) {
    throw new ArchiveProblem(
      'is for every Python ("noarch": "python"), which neither its channel nor its address says: it belongs below noarch',
    );
  }
  if (python) return python;
  throw new ArchiveProblem('is a package for Python, and the environment has no Python');
}

function sumsOf(path: string): ArchiveSums {
  const [sha256, md5] = [createHash('sha256'), createHash('md5')];
  const buffer = Buffer.allocUnsafeSlow(sumBytes);
  const fd = openSync(path, 'r');
  let size = 0;
  try {
    for (;;) {
      const read = readSync(fd, buffer, 0, buffer.length, size);
      if (read === 0) break;
      const chunk = buffer.subarray(0, read);
      sha256.update(chunk);
      md5.update(chunk);
      size += read;
    }
  } finally {
    closeSync(fd);
  }
  return { sha256: sha256.digest('hex'), md5: md5.digest('hex'), size };
}

function checkSums({ sha256, md5 }: CondaPackage, sums: ArchiveSums): void {
  const isRight = sha256 === undefined ? md5 === sums.md5 : sha256 === sums.sha256;
  if (isRight) return;
  if (sha256 === undefined && md5 === undefined) return;
  throw new ArchiveProblem(
    `has the digest sha256:${sums.sha256}, not ${sha256 === undefined ? `md5:${md5}` : `sha256:${sha256}`}`,
  );
}

function formatOf({ fileName }: CondaPackage): ArchiveFormat {
  const format = archiveFormats.find(end => fileName.endsWith(end));
  if (format !== undefined) return format;
  throw new ArchiveProblem(`is neither ${archiveFormats.join(' nor ')}`);
}

function faultOf(error: unknown, { fileName, url }: CondaPackage): unknown {
  return archiveFault(
    error,
    fileName,
    problem =>
      `its archive at ${url} ${problem}. Choose another build of the package, or report it to the owners of the channel`,
  );
}

const scripts = ['pre', 'post'].map(when => `${when}-link.sh`);

/** Returns the paths of the scripts that package managers run when they link a package. */
function ownScripts(name: string): string[] {
  return scripts.map(script => `bin/.${name}-${script}`);
}

/**
 * Finds the scripts that package managers run when they link the package, before or after. A script for unlinking is not
 * one of them.
 */
class LinkScripts {
  readonly #own: readonly string[];
  readonly #installed = new Set<string>();

  constructor(name: string) {
    this.#own = ownScripts(name);
  }

  /** Takes a path that is installed. */
  see(path: string): void {
    if (this.#own.includes(path)) this.#installed.add(path);
  }

  /** Returns their paths. */
  found({ entries }: UnpackedArchive): string[] {
    return [
      ...this.#own.filter(path => this.#installed.has(path)),
      // Old packages have some there.
      ...scripts.map(script => `info/${script}`).filter(path => entries.get(path)),
    ];
  }
}

const types: ReadonlySet<unknown> = new Set(['hardlink', 'softlink', 'directory']);
const modes: ReadonlySet<unknown> = new Set(['text', 'binary']);

/**
 * Yields the paths that a package installs, each once: those of `info/paths.json`, in older packages those of `info/files`.
 * What is in the archive and not listed is not installed. Throws `ArchiveProblem` for a damaged list.
 */
function listedPaths(documents: PackageDocuments, archive: UnpackedArchive): Iterable<ListedEntry> {
  const items = documents.items('paths.json', 'paths');
  return items ? readPaths(items, archive) : listedInOldFiles(documents, archive);
}

function* readPaths(
  items: Iterable<unknown>,
  { entries }: UnpackedArchive,
): Generator<ListedEntry> {
  const placeholders = new Map<string, Placeholder>();
  for (const item of items) {
    const listed = readPath(item);
    const entry = entries.get(listed.path);
    if (entry?.isListed) throw new ArchiveProblem(`lists ${showPath(listed.path)} twice`);
    if (entry) entry.isListed = true;
    yield { listed: entry ? sharing(listed, entry, placeholders) : listed, entry };
  }
}

/** Returns a listed path without texts that are in memory already: of its entry, and of the placeholder of very many. */
function sharing(
  listed: ListedPath,
  { path, content }: UnpackedEntry,
  placeholders: Map<string, Placeholder>,
): ListedPath {
  const { type, noLink, sha256, size, placeholder } = listed;
  const key = `${placeholder?.mode} ${placeholder?.text}`;
  const first = placeholders.get(key) ?? placeholder;
  if (first) placeholders.set(key, first);
  return {
    path,
    type,
    noLink,
    size,
    sha256: sha256 === content?.sha256 ? content?.sha256 : sha256,
    placeholder: first,
  };
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
    path,
    type: type as ListedPath['type'],
    noLink,
    sha256: isSha256(sha256) ? sha256.toLowerCase() : undefined,
    size: typeof size === 'number' ? size : undefined,
    placeholder: isPatched ? { text, mode: mode as Placeholder['mode'] } : undefined,
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
