import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { type ArchiveLimits, archiveLimits } from '../archives/archive-limits.ts';
import { ArchiveProblem, problemOf } from '../archives/archive-problem.ts';
import { type ArchiveFormat, unpackArchive } from '../archives/unpacked-archive.ts';
import { type CondaPackage, mayDependOnPython } from '../conda-package.ts';
import type { ArchiveSums, InstalledPackage, InstallPlace } from './installed-package.ts';
import { LayerWriter, type TarOutput } from './layer-writer.ts';
import { documentsOf } from './metadata/package-documents.ts';
import { checkIndex, packageRecord, recordPath } from './metadata/package-record.ts';
import { listedPaths } from './metadata/path-list.ts';
import { entryPointsOf } from './metadata/python-command.ts';
import { RecordedPaths } from './metadata/recorded-paths.ts';
import { LinkScripts } from './planning/link-scripts.ts';
import { planPaths } from './planning/plan-paths.ts';

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
    ...{ name, archive, place, python },
    listed: listedPaths(documents, archive),
    entryPoints: python ? entryPointsOf(documents) : [],
  });
  onSize?.(planned.bytes);
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
  if (isDiskFull(error)) {
    return new Fault('storage-full', `Cannot unpack ${fileName}: the disk of the server is full`, {
      phase: 'build',
      cause: error,
    });
  }
  const problem = problemOf(error);
  if (problem === undefined) return error;
  return new Fault(
    'upstream-unusable',
    `Cannot install ${fileName}: its archive at ${url} ${problem}. Choose another build of the package, or report it to the owners of the channel`,
    { phase: 'build', cause: error },
  );
}
