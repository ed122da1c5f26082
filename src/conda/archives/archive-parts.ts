import { readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { maxWindowLog } from './archive-limits.ts';
import { ArchiveProblem, showPath } from './archive-problem.ts';
import { Bzip2Decoder } from './bzip2/bzip2-decoder.ts';
import { readZipMembers, type ZipMember } from './zip-members.ts';
import { ZstdDecoder } from './zstd/zstd-decoder.ts';

/** Receives the bytes of a tar file. */
export interface TarSink {
  write(bytes: Buffer): void;
  /** Ends one tar file; another one may follow. */
  end(): void;
}

export interface ReadOptions {
  readonly signal: AbortSignal;
  /** Directory for a file without a name. */
  readonly scratch: string;
}

const maxMetadataBytes = 64 * 1024;
const formatVersion = 2;

/**
 * Reads the tar files of a `.conda` archive, the metadata of the package first. Throws `ArchiveProblem` for a damaged
 * archive. Source: conda, Package specification, version 2.
 */
export function readCondaParts(fd: number, sink: TarSink, { signal, scratch }: ReadOptions): void {
  const members = readZipMembers(fd);
  checkFormat(fd, members);
  for (const kind of ['info', 'pkg']) {
    const found = members.filter(({ name }) => name.startsWith(`${kind}-`));
    const [member] = found;
    if (member === undefined || found.length > 1 || !member.name.endsWith('.tar.zst')) {
      throw new ArchiveProblem(`must have one member ${kind}-*.tar.zst`);
    }
    readMember(fd, member, sink, { signal, scratch });
    sink.end();
  }
}

/**
 * Reads the tar file of a `.tar.bz2` archive. Throws `ArchiveProblem` for a damaged one. Source: conda, Package
 * specification, version 1.
 */
export function readBzip2Tar(
  fd: number,
  sink: TarSink,
  { signal }: Pick<ReadOptions, 'signal'>,
): void {
  using decoder = new Bzip2Decoder();
  for (let position = 0; ; ) {
    signal.throwIfAborted();
    const { input } = decoder;
    const read = readSync(fd, input, 0, input.length, position);
    if (read === 0) break;
    position += read;
    for (const bytes of decoder.decompress(read)) sink.write(bytes);
  }
  decoder.end();
  sink.end();
}

function checkFormat(fd: number, members: readonly ZipMember[]): void {
  const member = members.find(({ name }) => name === 'metadata.json');
  if (member === undefined || member.size > maxMetadataBytes) {
    throw new ArchiveProblem('has no metadata.json');
  }
  const bytes = Buffer.alloc(member.size);
  readSync(fd, bytes, 0, member.size, member.start);
  let format: unknown;
  try {
    format = JSON.parse(bytes.toString());
  } catch {
    throw new ArchiveProblem('has a damaged metadata.json');
  }
  const version = (format as { conda_pkg_format_version?: unknown } | null)
    ?.conda_pkg_format_version;
  if (version !== formatVersion) {
    throw new ArchiveProblem(`has format version ${JSON.stringify(version)}, not ${formatVersion}`);
  }
}

function readMember(
  fd: number,
  { name, start, size, crc32: expected }: ZipMember,
  sink: TarSink,
  { signal, scratch }: ReadOptions,
): void {
  if (size === 0) throw new ArchiveProblem(`has an empty member, ${showPath(name)}`);
  using decoder = new ZstdDecoder(maxWindowLog, scratch);
  let sum = 0;
  for (let position = 0; position < size; ) {
    signal.throwIfAborted();
    const { input } = decoder;
    const most = Math.min(input.length, size - position);
    const read = readSync(fd, input, 0, most, start + position);
    if (read === 0) throw new ArchiveProblem(`has a cut member, ${showPath(name)}`);
    sum = crc32(input.subarray(0, read), sum);
    position += read;
    for (const bytes of decoder.decompress(read)) sink.write(bytes);
  }
  decoder.end();
  if (sum !== expected) throw new ArchiveProblem(`has a damaged zip member, ${showPath(name)}`);
}
