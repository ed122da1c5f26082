import { createReadStream, readSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { constants, crc32, createZstdDecompress } from 'node:zlib';
import { maxWindowLog } from './archive-limits.ts';
import { ArchiveProblem, showPath } from './archive-problem.ts';
import { Bzip2Decoder } from './bzip2/bzip2-decoder.ts';
import { readZipMembers, type ZipMember } from './zip-members.ts';

/** Receives the bytes of a tar file. */
export interface TarSink {
  write(bytes: Buffer): void;
  /** Ends one tar file; another one may follow. */
  end(): void;
}

const chunkBytes = 64 * 1024;
const maxMetadataBytes = 64 * 1024;
const formatVersion = 2;

/**
 * Reads the tar files of a `.conda` archive, the metadata of the package first. Throws `ArchiveProblem`, or an error of
 * zlib, for a damaged archive. Source: conda, Package specification, version 2.
 */
export async function readCondaParts(
  fd: number,
  path: string,
  sink: TarSink,
  signal: AbortSignal,
): Promise<void> {
  const members = readZipMembers(fd);
  checkFormat(fd, members);
  for (const kind of ['info', 'pkg']) {
    const found = members.filter(({ name }) => name.startsWith(`${kind}-`));
    const [member] = found;
    if (member === undefined || found.length > 1 || !member.name.endsWith('.tar.zst')) {
      throw new ArchiveProblem(`must have one member ${kind}-*.tar.zst`);
    }
    await readMember(path, member, sink, signal);
    sink.end();
  }
}

/**
 * Reads the tar file of a `.tar.bz2` archive. Throws `ArchiveProblem` for a damaged one. Source: conda, Package
 * specification, version 1.
 */
export async function readBzip2Tar(
  _fd: number,
  path: string,
  sink: TarSink,
  signal: AbortSignal,
): Promise<void> {
  const decoder = new Bzip2Decoder();
  for await (const chunk of createReadStream(path, { highWaterMark: chunkBytes, signal })) {
    for (const bytes of decoder.write(chunk)) sink.write(bytes);
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

async function readMember(
  path: string,
  { name, start, size, crc32: expected }: ZipMember,
  sink: TarSink,
  signal: AbortSignal,
): Promise<void> {
  if (size === 0) throw new ArchiveProblem(`has an empty member, ${showPath(name)}`);
  let sum = 0;
  const file = createReadStream(path, { start, end: start + size - 1, highWaterMark: chunkBytes });
  await pipeline(
    file,
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        sum = crc32(chunk, sum);
        yield chunk;
      }
    },
    createZstdDecompress({
      chunkSize: chunkBytes,
      params: { [constants.ZSTD_d_windowLogMax]: maxWindowLog },
    }),
    async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) sink.write(chunk);
    },
    { signal },
  );
  if (sum !== expected) throw new ArchiveProblem(`has a damaged zip member, ${showPath(name)}`);
}
