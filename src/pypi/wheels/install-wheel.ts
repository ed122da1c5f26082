import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { posix } from 'node:path';
import {
  type ArchiveLimits,
  ArchiveProblem,
  checkedPath,
  fileMode,
  LargeArchive,
  PrefixWriter,
  type PythonPlace,
  problemOf,
  pythonShebang,
  readZipMembers,
  showPath,
  type TarOutput,
  usualEntries,
  type ZipMember,
} from '../../conda/installing/index.ts';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import type { WheelFile } from '../wheel-file.ts';
import { readCommands } from './entry-points.ts';
import { memberBytes, memberText } from './member-bytes.ts';
import { planWheel, programMode, type WheelPath } from './plan-wheel.ts';
import {
  checkMetadata,
  checkWheelVersion,
  readMetadata,
  type WheelMetadata,
} from './wheel-metadata.ts';
import {
  algorithmOf,
  type RecordedFile,
  readRecord,
  recordDigest,
  recordLine,
} from './wheel-record.ts';

/** Where a wheel is installed. */
export interface WheelPlace {
  /** Absolute path of the environment: `/opt/conda`. */
  readonly prefix: string;
  readonly python: PythonPlace;
  /** Paths relative to the prefix that wheels which are installed later have also. Default: none. */
  readonly lostPaths?: readonly string[] | undefined;
}

/** What the installation of a wheel has shown. */
export interface InstalledWheel {
  readonly metadata: WheelMetadata;
  /** Of the file. */
  readonly sums: { readonly sha256: string; readonly size: number };
  /** Sentences about the wheel for the log, such as files that differ from its `RECORD`. */
  readonly warnings: readonly string[];
}

export interface WheelOptions {
  readonly signal: AbortSignal;
  readonly limits: ArchiveLimits;
  /** Called before the first file, with the bytes of all files. */
  readonly onSize?: (bytes: number) => void;
  /** Called with the path of each file relative to the prefix, sorted. */
  readonly onPath?: (path: string) => void;
  /** True when others are installed at the same time: `LargeArchive` is thrown for one that needs much memory. */
  readonly isShared?: boolean;
}

const executableBits = 0o111;
const kindBits = 0o170000;
const fileKind = 0o100000;
const directoryKind = 0o040000;
const maxTextBytes = 16 * 1024 * 1024;
const mostWarnings = 5;

/**
 * Installs a wheel: writes the tar entries of its files and directories below the prefix, sorted but for `RECORD` at the end, and
 * without the blocks that end a tar file. The same wheel and place give the same bytes everywhere. Returns what the
 * installation has shown. What was written before an error is useless.
 *
 * Paths, bytes and modes are those of `uv pip install`, with these differences: `INSTALLER` names this program, files have a fixed time,
 * and `RECORD` lists exactly the files that are installed, with their digests.
 *
 * As in uv and pip, a file that differs from what the wheel's own `RECORD` says is installed: the digest of the whole wheel was verified.
 * It is a warning.
 *
 * Blocks its thread for long: call it in a worker. No content of a member is in memory as a whole. Throws a `Fault` for a
 * wheel that is damaged, and for one that would harm.
 *
 * @param path the wheel on disk, whose digest was verified
 */
export async function installWheel(
  path: string,
  wheel: WheelFile,
  place: WheelPlace,
  sink: TarOutput,
  options: WheelOptions,
): Promise<InstalledWheel> {
  const fd = openSync(path, 'r');
  try {
    return await new WheelInstallation(fd, wheel, place, sink, options).run();
  } catch (error) {
    throw faultOf(error, wheel);
  } finally {
    closeSync(fd);
  }
}

class WheelInstallation {
  readonly #fd: number;
  readonly #wheel: WheelFile;
  readonly #place: WheelPlace;
  readonly #sink: TarOutput;
  readonly #options: WheelOptions;
  readonly #warnings: string[] = [];
  #warningCount = 0;
  #record = new Map<string, RecordedFile>();
  /** Lines of the `RECORD` that is written, by the paths in it. */
  readonly #lines = new Map<string, string>();

  constructor(
    ...[fd, wheel, place, sink, options]: [
      fd: number,
      wheel: WheelFile,
      place: WheelPlace,
      sink: TarOutput,
      options: WheelOptions,
    ]
  ) {
    [this.#fd, this.#wheel, this.#place] = [fd, wheel, place];
    [this.#sink, this.#options] = [sink, options];
  }

  async run(): Promise<InstalledWheel> {
    const { limits, onSize, onPath, isShared = false, signal } = this.#options;
    const { size } = fstatSync(this.#fd);
    const members = this.#members(size);
    if (isShared && members.size > usualEntries) throw new LargeArchive();
    const stem = stemOf(members);
    const info = (name: string) => this.#text(members, `${stem}.dist-info/${name}`);
    checkWheelVersion(await info('WHEEL'));
    const metadata = readMetadata(await info('METADATA'));
    checkMetadata(metadata, this.#wheel);
    this.#record = readRecord(await info('RECORD'), 2 * limits.entries);
    const { prefix, python, lostPaths } = this.#place;
    const { directUrl } = this.#wheel;
    const minor = python.minorVersion.replace(/t$/, '');
    const points = members.has(`${stem}.dist-info/entry_points.txt`)
      ? await info('entry_points.txt')
      : '';
    const interpreter = `${prefix}/bin/python${minor}`;
    const paths = planWheel({
      ...{ members, stem, name: metadata.name, python, interpreter },
      commands: readCommands(points, python.minorVersion),
      directUrl: directUrl && JSON.stringify(directUrl),
    });
    onSize?.(paths.reduce((sum, one) => sum + sizeOf(one), 0));
    const record = `${python.sitePackages}/${stem}.dist-info/RECORD`;
    const tree = new PrefixWriter({
      prefix,
      lastDirectory: posix.dirname(record),
      maxDirectories: limits.entries,
      sink: this.#sink,
    });
    const lost = new Set(lostPaths);
    const unused = new PrefixWriter({
      ...{ prefix, lastDirectory: '', maxDirectories: limits.entries },
      sink: { write: () => {} },
    });
    for (const one of paths) {
      signal.throwIfAborted();
      const isLost = lost.has(one.path);
      if (one.source.kind !== 'directory' && !isLost) onPath?.(one.path);
      await this.#write(one, isLost ? unused : tree, interpreter);
    }
    for (const [path, { digest }] of this.#record) {
      // A program may have replaced a script.
      const isThere = digest === undefined || members.has(path);
      if (!isThere) this.#warn(`RECORD lists ${showPath(path)}, which is not there`);
    }
    this.#lines.set(this.#fromSitePackages(record), '');
    await tree.file(record, this.#recordText(), fileMode);
    const more = this.#warningCount - this.#warnings.length;
    const sums = { sha256: this.#wheel.sha256, size };
    return {
      ...{ metadata, sums },
      warnings: more > 0 ? [...this.#warnings, `${more} more files like these`] : this.#warnings,
    };
  }

  /** Returns the members by their checked paths; those of directories end with a slash. */
  #members(archiveBytes: number): Map<string, ZipMember> {
    const { limits } = this.#options;
    const list = readZipMembers(this.#fd, {
      members: limits.entries,
      directoryBytes: limits.documentBytes,
    });
    const mostBytes = Math.min(
      limits.unpackedBytes,
      Math.max(limits.freeBytes, archiveBytes * limits.ratio),
    );
    let bytes = 0;
    const members = new Map<string, ZipMember>();
    for (const member of list) {
      const { name, size, mode } = member;
      const plain = checkedPath(name);
      const isDirectory = name.endsWith('/');
      const kind = mode & kindBits;
      if (kind !== 0 && kind !== (isDirectory ? directoryKind : fileKind)) {
        throw new ArchiveProblem(`has a member that is not a file, ${showPath(name)}`);
      }
      if (plain === '' || (isDirectory && size > 0)) {
        throw new ArchiveProblem(`has a member without a file name, ${showPath(name)}`);
      }
      bytes += size;
      if (bytes > mostBytes) {
        throw new ArchiveProblem(`has more than ${mostBytes} bytes when it is unpacked`);
      }
      const path = isDirectory ? `${plain}/` : plain;
      if (members.has(path)) throw new ArchiveProblem(`has two members ${showPath(path)}`);
      members.set(path, member);
    }
    return members;
  }

  async #text(members: ReadonlyMap<string, ZipMember>, path: string): Promise<string> {
    const member = members.get(path);
    if (!member) throw new ArchiveProblem(`does not contain ${showPath(path)}`);
    const { signal, limits } = this.#options;
    const maxBytes = path.endsWith('/RECORD') ? limits.documentBytes : maxTextBytes;
    return (await memberText(this.#fd, member, { maxBytes, signal })).toString('utf8');
  }

  async #write(
    { path, source }: WheelPath,
    tree: PrefixWriter,
    interpreter: string,
  ): Promise<void> {
    switch (source.kind) {
      case 'directory':
        await tree.entry({ path, kind: 'directory', mode: programMode });
        return;
      case 'own': {
        const { bytes, mode } = source;
        await tree.file(path, bytes, mode);
        this.#line(path, recordDigest(bytes), bytes.length);
        this.#record.delete(this.#fromSitePackages(path));
        return;
      }
      case 'member':
        await this.#member(path, source, tree, interpreter);
        return;
      case 'record':
        this.#record.delete(this.#fromSitePackages(path));
    }
  }

  async #member(
    path: string,
    { member, isScript }: Extract<WheelPath['source'], { kind: 'member' }>,
    tree: PrefixWriter,
    interpreter: string,
  ): Promise<void> {
    const { name } = member;
    const recorded = this.#recorded(name);
    const algorithm = algorithmOf(recorded?.digest);
    const asPacked = createHash(algorithm ?? 'sha256');
    const pieces = memberBytes(this.#fd, member, this.#options.signal);
    const start = isScript ? await shebangOf(pieces, interpreter) : undefined;
    const size = member.size + (start ? start.shebang.length - start.replaced : 0);
    const isProgram = isScript || (member.mode & executableBits) !== 0;
    await tree.entry({ path, kind: 'file', mode: isProgram ? programMode : fileMode, size });
    const asWritten = createHash('sha256');
    if (start) {
      asPacked.update(start.read);
      for (const piece of [start.shebang, start.read.subarray(start.replaced)]) {
        asWritten.update(piece);
        await tree.write(piece);
      }
    }
    for await (const piece of pieces) {
      asPacked.update(piece);
      if (start) asWritten.update(piece);
      await tree.write(piece);
    }
    await tree.padding(size);
    const digest = `${algorithm ?? 'sha256'}=${asPacked.digest('base64url')}`;
    this.#compare(name, recorded, digest, member.size);
    this.#line(path, start ? `sha256=${asWritten.digest('base64url')}` : digest, size);
  }

  /** Takes out what the wheel's `RECORD` says about a member. */
  #recorded(name: string): RecordedFile | undefined {
    // Some wheels have absolute paths.
    for (const path of [name, `/${name}`]) {
      const recorded = this.#record.get(path);
      if (this.#record.delete(path)) return recorded;
    }
    return undefined;
  }

  #compare(name: string, recorded: RecordedFile | undefined, digest: string, size: number): void {
    // Signatures of RECORD are not in it, or without a digest.
    if (/^[^/]*\.dist-info\/RECORD\.(?:jws|p7s)$/.test(name)) return;
    if (recorded?.digest === undefined) {
      this.#warn(`RECORD has no digest of ${showPath(name)}`);
    } else if (recorded.digest !== digest || (recorded.size ?? size) !== size) {
      this.#warn(`RECORD has another digest or size of ${showPath(name)} than the file`);
    }
  }

  #line(path: string, digest: string, size: number): void {
    const relative = this.#fromSitePackages(path);
    this.#lines.set(relative, recordLine(relative, digest, size));
  }

  #recordText(): Buffer {
    const sorted = [...this.#lines.keys()].sort((one, other) =>
      Buffer.compare(Buffer.from(one), Buffer.from(other)),
    );
    return Buffer.from(
      sorted.map(path => this.#lines.get(path) || recordLine(path, '', '')).join(''),
    );
  }

  #fromSitePackages(path: string): string {
    const { sitePackages } = this.#place.python;
    return path.startsWith(`${sitePackages}/`)
      ? path.slice(sitePackages.length + 1)
      : posix.relative(sitePackages, path);
  }

  #warn(sentence: string): void {
    this.#warningCount += 1;
    if (this.#warnings.length < mostWarnings) this.#warnings.push(sentence);
  }
}

function sizeOf({ source }: WheelPath): number {
  if (source.kind === 'member') return source.member.size;
  return source.kind === 'own' ? source.bytes.length : 0;
}

/** Returns the beginning of the names of a wheel's own directories, such as `numpy-2.1.0`. */
function stemOf(members: ReadonlyMap<string, ZipMember>): string {
  const stems = new Set<string>();
  for (const path of members.keys()) {
    const stem = /^([^/]+)\.dist-info\//.exec(path)?.[1];
    if (stem !== undefined) stems.add(stem);
  }
  const [stem] = stems;
  if (stem !== undefined && stems.size === 1) return stem;
  throw new ArchiveProblem(
    stem === undefined ? 'has no .dist-info directory' : 'has two .dist-info directories',
  );
}

const placeholder = '#!python';
const longestLine = 4096;

/** The beginning of a script whose first line names a Python of its own. */
interface ScriptStart {
  /** Bytes of the script so far. */
  readonly read: Buffer;
  /** How many of them the other beginning replaces. */
  readonly replaced: number;
  readonly shebang: Buffer;
}

/** Reads the beginning of a script. */
async function shebangOf(
  pieces: AsyncGenerator<Buffer>,
  interpreter: string,
): Promise<ScriptStart> {
  let read = Buffer.alloc(0);
  while (read.length < longestLine && !read.includes('\n')) {
    const { value, done } = await pieces.next();
    if (done) break;
    read = Buffer.concat([read, value]);
  }
  const nothing = { read, replaced: 0, shebang: Buffer.alloc(0) };
  if (read.toString('latin1', 0, placeholder.length) !== placeholder) return nothing;
  const end = read.indexOf('\n');
  const line = read.toString('latin1', 0, end < 0 ? Math.min(read.length, longestLine) : end);
  // Options stay, a version does not.
  const [named = placeholder] = /^#!pythonw?[\d.]*/.exec(line) ?? [];
  const options = line.slice(named.length).replace(/\r$/, '');
  return {
    read,
    replaced: line.length,
    shebang: Buffer.from(pythonShebang(interpreter) + options, 'latin1'),
  };
}

function faultOf(error: unknown, { fileName, url }: WheelFile): unknown {
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
    `Cannot install ${fileName}: the wheel at ${url} ${problem}. Choose another version of the package, or report it to its authors`,
    { phase: 'build', cause: error },
  );
}
