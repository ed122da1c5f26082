import { createHash } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { posix } from 'node:path';
import {
  archiveFault,
  fileMode,
  PrefixWriter,
  pythonShebang,
  showPath,
  type TarOutput,
} from '../../conda/installing/index.ts';
import { compareTexts } from '../../foundation/text.ts';
import type { WheelFile } from '../wheel-file.ts';
import { memberBytes } from './member-bytes.ts';
import { type OpenedWheel, type OpenOptions, openWheel, type WheelPlace } from './open-wheel.ts';
import { programMode, type WheelPath } from './plan-wheel.ts';
import type { WheelMetadata } from './wheel-metadata.ts';
import {
  algorithmOf,
  type RecordedFile,
  recordDigest,
  recordLine,
  WheelWarnings,
} from './wheel-record.ts';

/** What the installation of a wheel has shown. */
export interface InstalledWheel {
  readonly metadata: WheelMetadata;
  /** Of the file. */
  readonly sums: { readonly sha256: string; readonly size: number };
  /** Sentences about the wheel for the log, such as files that differ from its `RECORD`. */
  readonly warnings: readonly string[];
}

export interface WheelOptions extends OpenOptions {
  /** Called before the first file, with the bytes of all files. */
  readonly onSize?: (bytes: number) => void;
  /** Called with the path of each file relative to the prefix, sorted. */
  readonly onPath?: (path: string) => void;
}

const executableBits = 0o111;
const linesOfPiece = 500;

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
    const warnings = new WheelWarnings();
    const opened = await openWheel(fd, wheel, place, { ...options, warnings });
    const { metadata, size, paths } = opened;
    options.onSize?.(paths.reduce((sum, one) => sum + sizeOf(one), 0));
    await new WheelWriter({ fd, place, sink, options, opened, warnings }).write();
    const sums = { sha256: wheel.sha256, size };
    return { metadata, sums, warnings: warnings.sentences() };
  } catch (error) {
    throw faultOf(error, wheel);
  } finally {
    closeSync(fd);
  }
}

interface WheelWriterInput {
  readonly fd: number;
  readonly place: WheelPlace;
  readonly sink: TarOutput;
  readonly options: WheelOptions;
  readonly opened: OpenedWheel;
  readonly warnings: WheelWarnings;
}

class WheelWriter {
  readonly #input: WheelWriterInput;

  constructor(input: WheelWriterInput) {
    this.#input = input;
  }

  async write(): Promise<void> {
    const { place, sink, options, opened } = this.#input;
    const { paths, recordPath } = opened;
    const common = { prefix: place.prefix, maxDirectories: options.limits.entries };
    const lastDirectory = posix.dirname(recordPath);
    const tree = new PrefixWriter({ ...common, lastDirectory, sink });
    const unused = new PrefixWriter({ ...common, lastDirectory, sink: { write: () => {} } });
    const lost = new Set(place.lostPaths);
    for (const one of paths) {
      options.signal.throwIfAborted();
      const isLost = lost.has(one.path);
      if (one.source.kind !== 'directory' && !isLost) options.onPath?.(one.path);
      await this.#path(one, isLost ? unused : tree);
    }
    const files = paths
      .filter(({ source }) => source.kind !== 'directory')
      .sort((one, other) => compareTexts(this.#recorded(one), this.#recorded(other)));
    await tree.textFile(recordPath, () => this.#recordText(files));
  }

  async #path(one: WheelPath, tree: PrefixWriter): Promise<void> {
    const { path, source } = one;
    switch (source.kind) {
      case 'directory':
        await tree.entry({ path, kind: 'directory', mode: programMode });
        return;
      case 'own': {
        const { bytes, mode } = source;
        await tree.file(path, bytes, mode);
        one.recorded = { digest: recordDigest(bytes), size: bytes.length };
        return;
      }
      case 'member':
        one.recorded = await this.#member(path, source, tree);
    }
  }

  /** Writes a member; returns what `RECORD` says about it. */
  async #member(
    path: string,
    { member, isScript }: Extract<WheelPath['source'], { kind: 'member' }>,
    tree: PrefixWriter,
  ): Promise<RecordedFile> {
    const { fd, opened, options } = this.#input;
    const { name } = member;
    // Some wheels have absolute paths.
    const recorded = opened.record.get(name) ?? opened.record.get(`/${name}`);
    const algorithm = algorithmOf(recorded?.digest) ?? 'sha256';
    const asPacked = createHash(algorithm);
    const pieces = memberBytes(fd, member, options.signal);
    const start = isScript ? await startOf(pieces, opened.interpreter) : undefined;
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
    const packed = { digest: `${algorithm}=${asPacked.digest('base64url')}`, size: member.size };
    const isRight = this.#compare(name, recorded, packed);
    if (start) return { digest: `sha256=${asWritten.digest('base64url')}`, size };
    return isRight && recorded ? recorded : packed;
  }

  /** Returns true for a member that is as the wheel's own `RECORD` says. */
  #compare(name: string, recorded: RecordedFile | undefined, packed: RecordedFile): boolean {
    // Signatures of RECORD are not in it, or without a digest.
    if (/^[^/]*\.dist-info\/RECORD\.(?:jws|p7s)$/.test(name)) return false;
    if (recorded?.digest === undefined) {
      this.#input.warnings.add(`RECORD has no digest of ${showPath(name)}`);
      return false;
    }
    const isRight = recorded.digest === packed.digest && recorded.size === packed.size;
    if (isRight || (recorded.digest === packed.digest && recorded.size === undefined)) {
      return isRight;
    }
    this.#input.warnings.add(
      `RECORD has another digest or size of ${showPath(name)} than the file`,
    );
    return false;
  }

  /** Returns a path as `RECORD` has it: relative to the directory of packages. */
  #recorded({ path }: WheelPath): string {
    const { sitePackages } = this.#input.place.python;
    return path.startsWith(`${sitePackages}/`)
      ? path.slice(sitePackages.length + 1)
      : posix.relative(sitePackages, path);
  }

  *#recordText(files: readonly WheelPath[]): Generator<string> {
    for (let at = 0; at < files.length; at += linesOfPiece) {
      yield files
        .slice(at, at + linesOfPiece)
        .map(file => recordLine(this.#recorded(file), file.recorded))
        .join('');
    }
  }
}

function sizeOf({ source }: WheelPath): number {
  if (source.kind === 'member') return source.member.size;
  return source.kind === 'own' ? source.bytes.length : 0;
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
async function startOf(pieces: AsyncGenerator<Buffer>, interpreter: string): Promise<ScriptStart> {
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
  return archiveFault(
    error,
    fileName,
    problem =>
      `the wheel at ${url} ${problem}. Choose another version of the package, or report it to its authors`,
  );
}
