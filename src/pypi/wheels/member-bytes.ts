import { readSync } from 'node:fs';
import { Readable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { crc32, createInflateRaw } from 'node:zlib';
import { openDeflate } from '../../archives/deflate/deflate.ts';
import { ArchiveProblem, showPath, type ZipMember } from '../../conda/installing/index.ts';

/** Bytes that are read at once; also what a member that is unpacked at once has at most. */
const pieceBytes = 256 * 1024;
const nothing = Buffer.alloc(0);

/** The memory of this thread, and what unpacks in it: each member would leave its own for the garbage collector. */
const memory = openDeflate(1, pieceBytes, pieceBytes);

/**
 * Yields the content of a member, unpacked, piece by piece: views that are valid until the next one. Throws
 * `ArchiveProblem` for content that is damaged, or has another size than the list of members says.
 */
export async function* memberBytes(
  fd: number,
  member: ZipMember,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let size = 0;
  let sum = 0;
  const isSmall = Math.max(member.size, member.packedSize) <= pieceBytes;
  const pieces = isSmall ? wholeMember(fd, member) : largeMember(fd, member, signal);
  try {
    for await (const piece of pieces) {
      size += piece.length;
      if (size > member.size) throw damaged(member);
      sum = crc32(piece, sum);
      yield piece;
    }
  } catch (error) {
    throw isOfZlib(error) ? damaged(member, error) : error;
  }
  if (size !== member.size || sum !== member.crc32) throw damaged(member);
}

/** Returns the whole content of a member. Throws `ArchiveProblem` for one of more bytes than allowed, and as {@link memberBytes}. */
export async function memberText(
  fd: number,
  member: ZipMember,
  { maxBytes, signal }: { readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Buffer> {
  if (member.size > maxBytes) {
    throw new ArchiveProblem(`has ${showPath(member.name)} of more than ${maxBytes} bytes`);
  }
  const bytes = Buffer.allocUnsafe(member.size);
  let at = 0;
  for await (const piece of memberBytes(fd, member, signal)) at += piece.copy(bytes, at);
  return bytes;
}

function* wholeMember(fd: number, member: ZipMember): Generator<Buffer> {
  const packed = readPiece(fd, member, 0);
  if (!member.isDeflated) return yield packed;
  if (memory.inflate(packed.length) === 0) throw damaged(member);
  yield memory.content.subarray(0, memory.inflated());
}

function largeMember(
  fd: number,
  member: ZipMember,
  signal: AbortSignal,
): Iterable<Buffer> | AsyncIterable<Buffer> {
  if (!member.isDeflated) return packedPieces(fd, member, signal);
  const inflate = createInflateRaw({ chunkSize: pieceBytes });
  const packed = Readable.from(copies(packedPieces(fd, member, signal)));
  packed.on('error', error => inflate.destroy(error));
  return collected(packed.pipe(inflate));
}

/** Node makes new memory for each piece, and few other objects: without this, some 50 MiB lie around before they are collected. */
async function* collected(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let since = 0;
  for await (const piece of pieces) {
    since += piece.length;
    if (since > mostGarbage) {
      since = 0;
      collectYoung();
    }
    yield piece;
  }
}

const mostGarbage = 2 * 1024 * 1024;
let collect: ((options: { type: 'minor' }) => void) | undefined;

/** Has the collector of this thread look at the last objects: less than a millisecond. */
function collectYoung(): void {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as typeof collect;
  }
  collect?.({ type: 'minor' });
}

function* packedPieces(fd: number, member: ZipMember, signal: AbortSignal): Generator<Buffer> {
  for (let at = 0; at < member.packedSize; at += pieceBytes) {
    signal.throwIfAborted();
    yield readPiece(fd, member, at);
  }
}

/** A stream reads ahead. */
function* copies(pieces: Iterable<Buffer>): Generator<Buffer> {
  for (const piece of pieces) yield Buffer.from(piece);
}

function readPiece(fd: number, { name, start, packedSize }: ZipMember, at: number): Buffer {
  const length = Math.min(pieceBytes, packedSize - at);
  if (length === 0) return nothing;
  const bytes = memory.stream.subarray(0, length);
  if (readSync(fd, bytes, 0, length, start + at) === length) return bytes;
  throw new ArchiveProblem(`has a cut zip member, ${showPath(name)}`);
}

function isOfZlib(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code?.startsWith('Z_') === true || code === 'ERR_BUFFER_TOO_LARGE';
}

function damaged({ name }: ZipMember, cause?: unknown): ArchiveProblem {
  return new ArchiveProblem(`has a damaged zip member, ${showPath(name)}`, { cause });
}
