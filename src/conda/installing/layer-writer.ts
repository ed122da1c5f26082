import { createHash, hash } from 'node:crypto';
import { firstTime } from '../../archives/tar-writer.ts';
import { type ArchiveLimits, ArchiveProblem } from '../archives/archive-checks.ts';
import type { UnpackedArchive } from '../archives/unpacked-archive.ts';
import type { UnpackedContent } from '../archives/unpacked-entries.ts';
import type { InstallPlace, PythonPlace } from './installed-package.ts';
import { isObject } from './metadata/package-documents.ts';
import type { RecordedPaths, WrittenFile } from './metadata/package-record.ts';
import { entryPointScript } from './metadata/python-command.ts';
import type { PlannedFile, PlannedPath } from './plan-paths.ts';
import { binaryPatches } from './prefix/binary-patches.ts';
import { type ByteSource, patchedChunks, patchedSize, readOnce } from './prefix/patched-bytes.ts';
import { textPatches } from './prefix/text-patches.ts';
import { directoryMode, PrefixWriter, type TarOutput } from './prefix-writer.ts';

export interface LayerWriterInput {
  readonly archive: UnpackedArchive;
  readonly place: InstallPlace;
  readonly python: PythonPlace | undefined;
  readonly limits: ArchiveLimits;
  /** Receives what was written otherwise than the archive contains it. */
  readonly recorded: RecordedPaths;
  readonly sink: TarOutput;
  readonly signal: AbortSignal;
}

/** The last second that all programs know. */
const lastTime = 2 ** 32 - 1;
/** Bytes of all files with variables: these become part of the config of the image. */
const maxVariableBytes = 64 * 1024;
/** As rattler sets it. */
const scriptMode = 0o775;

/** Writes the tar entries of a package, each directory before what is in it. */
export class LayerWriter {
  /** What the package sets when the environment is activated. */
  readonly variables: Record<string, string> = {};
  readonly #input: LayerWriterInput;
  readonly #tree: PrefixWriter;
  #variableBytes = 0;
  /** Where content with several names was written first. */
  readonly #written = new Map<UnpackedContent, string>();
  readonly #patchedTime: number;

  constructor(input: LayerWriterInput) {
    this.#input = input;
    this.#tree = new PrefixWriter({
      prefix: input.place.prefix,
      lastDirectory: 'conda-meta',
      maxDirectories: input.limits.entries,
      sink: input.sink,
    });
    const aboutTime = input.archive.entries.get('info/about.json')?.mtime;
    // Python would take the byte code that was compiled before the prefix was replaced.
    this.#patchedTime = aboutTime === undefined ? firstTime : timeOf(aboutTime) + 1;
  }

  /** Writes the next path; paths must be sorted. */
  async path(planned: PlannedPath): Promise<void> {
    this.#input.signal.throwIfAborted();
    const { path, source } = planned;
    switch (source.kind) {
      case 'directory':
        await this.#tree.entry({ path, kind: 'directory', mode: directoryMode });
        return;
      case 'symlink': {
        const { link, mtime } = source;
        await this.#tree.entry({ path, kind: 'symlink', mode: 0o777, mtime: timeOf(mtime), link });
        return;
      }
      case 'script':
        await this.#script(planned, source.entryPoint);
        return;
      case 'file':
        await this.#file(planned, source);
    }
  }

  /** Writes a file of the installer whose text comes in pieces, the same each time that it is asked for. */
  textFile(path: string, pieces: () => Iterable<string>): Promise<void> {
    return this.#tree.textFile(path, pieces);
  }

  async #script(planned: PlannedPath, entryPoint: Parameters<typeof entryPointScript>[0]) {
    const { place, python, recorded } = this.#input;
    if (python === undefined) return;
    const bytes = entryPointScript(entryPoint, place.prefix, python);
    await this.#tree.file(planned.path, bytes, scriptMode);
    recorded.note(planned, { sha256: hash('sha256', bytes, 'hex'), size: bytes.length });
  }

  async #file(planned: PlannedPath, { listed, content }: PlannedFile): Promise<void> {
    const { path } = planned;
    const { placeholder, noLink } = listed;
    const { mode, mtime } = content;
    const isShared = placeholder === undefined && !noLink && content.isShared;
    const first = isShared ? this.#written.get(content) : undefined;
    if (first !== undefined) {
      const link = this.#tree.full(first);
      await this.#tree.entry({ path, kind: 'link', mode, mtime: timeOf(mtime), link });
      return;
    }
    if (isShared) this.#written.set(content, path);
    const written = await this.#content(planned, content, {
      mode,
      listed,
      mtime: placeholder ? this.#patchedTime : timeOf(mtime),
    });
    if (written) this.#input.recorded.note(planned, written);
  }

  /** Writes a file with its prefix replaced. Returns its digest and size as written; undefined if nothing was replaced. */
  async #content(
    { path, originalPath = path }: PlannedPath,
    content: UnpackedContent,
    { mode, mtime, listed }: { mode: number; mtime: number; listed: PlannedFile['listed'] },
  ): Promise<WrittenFile | undefined> {
    const { archive, place, limits } = this.#input;
    const source = readOnce({
      size: content.size,
      read: (offset, length) => archive.read(content, offset, length),
    });
    const { placeholder } = listed;
    const find = placeholder?.mode === 'binary' ? binaryPatches : textPatches;
    const patches = placeholder
      ? find(source, placeholder.text, place.prefix, limits.occurrences)
      : [];
    const size = patchedSize(content.size, patches);
    await this.#tree.entry({ path, kind: 'file', mode, mtime, size });
    const sum = patches.length > 0 ? createHash('sha256') : undefined;
    for (const chunk of patchedChunks(source, patches)) {
      sum?.update(chunk);
      await this.#tree.write(chunk);
    }
    await this.#tree.padding(size);
    if (isVariableFile(originalPath)) this.#variables(source, patches, size);
    return sum && { sha256: sum.digest('hex'), size };
  }

  #variables(source: ByteSource, patches: Parameters<typeof patchedChunks>[1], size: number): void {
    this.#variableBytes += size;
    if (this.#variableBytes > maxVariableBytes) {
      throw new ArchiveProblem(`sets variables by files above ${maxVariableBytes} bytes`);
    }
    const bytes = Buffer.concat([...patchedChunks(source, patches)]);
    Object.assign(this.variables, readVariables(bytes));
  }
}

function timeOf(mtime: number): number {
  return Math.min(Math.max(mtime, firstTime), lastTime);
}

const folder = /^etc\/conda\/env_vars\.d\/[^/]+\.json$/;
const name = /^[A-Za-z_]\w*$/;

/** Returns true for a file with variables that an activation of the environment sets. */
function isVariableFile(path: string): boolean {
  return folder.test(path);
}

/** Returns the variables of such a file; none of one that is damaged, as activation scripts do. */
function readVariables(bytes: Buffer): Record<string, string> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    return {};
  }
  const isVariable = (pair: [string, unknown]): pair is [string, string] =>
    name.test(pair[0]) && typeof pair[1] === 'string' && !pair[1].includes('\0');
  return isObject(value) ? Object.fromEntries(Object.entries(value).filter(isVariable)) : {};
}
