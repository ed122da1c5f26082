import { fstatSync, readSync } from 'node:fs';
import { zipBytes, zipEndIn, zipEntryAt, zipSignatures } from '../../archives/zip-records.ts';
import { ArchiveProblem, showPath, textOf } from './archive-checks.ts';

/** A member of a zip file. */
export interface ZipMember {
  readonly name: string;
  /** Offset of its first byte in the file. */
  readonly start: number;
  /** Bytes when it is unpacked. */
  readonly size: number;
  /** Bytes in the file. */
  readonly packedSize: number;
  readonly isDeflated: boolean;
  readonly crc32: number;
  /** Kind and permissions as on Unix; 0 for an archive that was made elsewhere. */
  readonly mode: number;
}

/** How large a zip file may be. */
export interface ZipLimits {
  readonly members: number;
  /** Bytes of the list of members. */
  readonly directoryBytes: number;
}

const end64Signature = 0x06064b50;
const locatorSignature = 0x07064b50;
const locatorBytes = 20;
const end64Bytes = 56;
const maxComment = 65_535;
const encryptedFlags = 1 | (1 << 6) | (1 << 13);
const methods = { stored: 0, deflated: 8 } as const;
const unixSystem = 3;
const escape16 = 0xffff;
const escape32 = 0xffffffff;

/**
 * Returns the members of a zip file, which must be stored or deflated, without encryption, and may not overlap. Throws
 * {@link ArchiveProblem} for any other file. Source: PKWARE APPNOTE 6.3.9, 4.3 and 4.5.3.
 */
export function readZipMembers(fd: number, limits: ZipLimits): ZipMember[] {
  const size = fstatSync(fd).size;
  const directory = findDirectory(fd, size);
  if (directory.count > limits.members) {
    throw new ArchiveProblem(`has more than ${limits.members} zip members`);
  }
  if (directory.size > limits.directoryBytes) {
    throw new ArchiveProblem(`has a list of members above ${limits.directoryBytes} bytes`);
  }
  if (directory.start + directory.size > directory.end) throw damaged();
  const bytes = readAt(fd, directory.start, directory.size);
  const members: ZipMember[] = [];
  let at = 0;
  for (let index = 0; index < directory.count; index += 1) {
    if (at + zipBytes.entry > bytes.length || bytes.readUInt32LE(at) !== zipSignatures.entry)
      throw damaged();
    const length = entryLength(bytes, at);
    if (at + length > bytes.length) throw damaged();
    members.push(readEntry(fd, bytes.subarray(at, at + length), directory.start));
    at += length;
  }
  if (at !== bytes.length) throw damaged();
  checkMembers(members);
  return members;
}

interface Directory {
  readonly start: number;
  readonly size: number;
  readonly count: number;
  /** Offset of what follows it. */
  readonly end: number;
}

function findDirectory(fd: number, size: number): Directory {
  const length = Math.min(size, zipBytes.end + maxComment);
  const tail = readAt(fd, size - length, length);
  const found = zipEndIn(tail);
  if (!found) throw new ArchiveProblem('is not a zip file, or is cut');
  const { at, disks, count, size: bytes, start } = found;
  if (disks !== 0 && disks !== escape32) throw damaged();
  const end = size - length + at;
  const isLarge = count === escape16 || bytes === escape32 || start === escape32;
  return isLarge ? findDirectory64(fd, end) : { start, size: bytes, count, end };
}

function findDirectory64(fd: number, end: number): Directory {
  if (end < locatorBytes) throw damaged();
  const locator = readAt(fd, end - locatorBytes, locatorBytes);
  if (locator.readUInt32LE(0) !== locatorSignature) throw damaged();
  const at = number64(locator, 8);
  if (at + end64Bytes > end - locatorBytes) throw damaged();
  const record = readAt(fd, at, end64Bytes);
  if (record.readUInt32LE(0) !== end64Signature) throw damaged();
  const [count, size, start] = [number64(record, 32), number64(record, 40), number64(record, 48)];
  return { start, size, count, end: at };
}

function entryLength(bytes: Buffer, at: number): number {
  return (
    zipBytes.entry +
    bytes.readUInt16LE(at + 28) +
    bytes.readUInt16LE(at + 30) +
    bytes.readUInt16LE(at + 32)
  );
}

function readEntry(fd: number, entry: Buffer, limit: number): ZipMember {
  const { nameLength, method, crc32, ...small } = zipEntryAt(entry, 0);
  const nameBytes = entry.toString('latin1', zipBytes.entry, zipBytes.entry + nameLength);
  const name = textOf(nameBytes);
  if ((entry.readUInt16LE(8) & encryptedFlags) !== 0) {
    throw new ArchiveProblem(`has an encrypted zip member, ${showPath(name)}`);
  }
  const isDeflated = method === methods.deflated;
  if (!isDeflated && method !== methods.stored) {
    throw new ArchiveProblem(
      `has a zip member of an unknown compression (${method}), ${showPath(name)}`,
    );
  }
  const extra = entry.subarray(zipBytes.entry + nameLength);
  const large = largeNumbers(small, extra.subarray(0, entry.readUInt16LE(30)));
  const { size, packedSize, offset } = large;
  if (!isDeflated && size !== packedSize) throw damaged();
  if (offset + zipBytes.local + nameLength > limit) throw damaged();
  const local = readAt(fd, offset, zipBytes.local + nameLength);
  if (local.readUInt32LE(0) !== zipSignatures.local) throw damaged();
  // Programs that read from the start would see another file.
  if (
    local.readUInt16LE(26) !== nameLength ||
    local.toString('latin1', zipBytes.local) !== nameBytes
  ) {
    throw new ArchiveProblem(`has a zip member with two names, ${showPath(name)}`);
  }
  const start = offset + zipBytes.local + nameLength + local.readUInt16LE(28);
  if (start + packedSize > limit) throw damaged();
  const isUnix = entry.readUInt16LE(4) >> 8 === unixSystem;
  const mode = isUnix ? entry.readUInt32LE(38) >>> 16 : 0;
  return { name, start, size, packedSize, isDeflated, crc32, mode };
}

/** Reads the numbers that ZIP64 stores in an extra field when they do not fit. */
function largeNumbers(small: Record<'size' | 'packedSize' | 'offset', number>, extra: Buffer) {
  const fields = [small.size, small.packedSize, small.offset];
  if (fields.includes(escape32)) {
    const field = extraField(extra, 1);
    let at = 0;
    for (const [index, value] of fields.entries()) {
      if (value !== escape32) continue;
      if (at + 8 > field.length) throw damaged();
      fields[index] = number64(field, at);
      at += 8;
    }
  }
  const [size = 0, packedSize = 0, offset = 0] = fields;
  return { size, packedSize, offset };
}

function extraField(extra: Buffer, id: number): Buffer {
  for (let at = 0; at + 4 <= extra.length; ) {
    const end = at + 4 + extra.readUInt16LE(at + 2);
    if (extra.readUInt16LE(at) === id && end <= extra.length) return extra.subarray(at + 4, end);
    at = end;
  }
  throw damaged();
}

function number64(bytes: Buffer, at: number): number {
  const value = bytes.readBigUInt64LE(at);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged();
  return Number(value);
}

function checkMembers(members: readonly ZipMember[]): void {
  const names = new Set(members.map(({ name }) => name));
  if (names.size < members.length) throw new ArchiveProblem('has two zip members of one name');
  const sorted = members.toSorted((a, b) => a.start - b.start);
  for (const [index, { start, packedSize, name }] of sorted.entries()) {
    const next = sorted[index + 1];
    // Between two members there is the header of the second.
    if (next !== undefined && start + packedSize + zipBytes.local > next.start) {
      throw new ArchiveProblem(`has overlapping zip members, ${showPath(name)}`);
    }
  }
}

function readAt(fd: number, start: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  if (start < 0 || readSync(fd, bytes, 0, length, start) !== length) throw damaged();
  return bytes;
}

function damaged(): ArchiveProblem {
  return new ArchiveProblem('is a damaged zip file');
}
