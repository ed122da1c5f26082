import { maxPaxRecords } from './tar-limits.ts';

/** What an entry is, by the type in its header. Old programs wrote NUL for a file. */
export const tarKinds = {
  '\0': 'file',
  '0': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'character-device',
  '4': 'block-device',
  '5': 'directory',
  '6': 'fifo',
  '7': 'file',
} as const;

export type TarKind = (typeof tarKinds)[keyof typeof tarKinds];

/**
 * One entry of a tar file. Names are bytes and may not be valid UTF-8: each character of `path` and `link`
 * represents one byte.
 */
export interface TarEntry {
  readonly path: string;
  readonly kind: TarKind;
  /** Permissions with setuid, setgid and sticky: 0 to 0o7777. */
  readonly mode: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Bytes of content; 0 for anything but a file. */
  readonly size: number;
  /** Target of a symbolic or hard link; empty for other kinds. */
  readonly link: string;
  readonly device?: { readonly major: number; readonly minor: number };
  /** Extended attributes, one character per byte. The tar reader returns only those of users (`user.*`). */
  readonly attributes?: Attributes;
  /** True for a sparse file: its content is longer than its data in the archive. */
  readonly isSparse?: true;
  /** IDs of its user and group. Default: root. */
  readonly owner?: TarOwner;
  /** True for a file with capabilities, which give a program some rights of root. */
  readonly hasCapabilities?: true;
}

export interface TarOwner {
  readonly uid: number;
  readonly gid: number;
}

/** Names of a user and a group. */
export interface TarNames {
  readonly user: string;
  readonly group: string;
}

export type Attributes = readonly (readonly [name: string, value: string])[];

/** A malformed tar file, or one that cannot be converted. The message completes a sentence that names the layer. */
export class TarError extends Error {}

/** Content is stored in blocks of this many bytes; the last one is padded. */
export const tarBlockSize = 512;

/** Returns the size of content including its padding, in bytes. */
export function paddedSize(size: number): number {
  return Math.ceil(size / tarBlockSize) * tarBlockSize;
}

/** Converts text to one character per byte, the form of names in a {@link TarEntry}. */
export function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** Converts a name of a {@link TarEntry} to text. */
export function textOfBytes(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString();
}

/** Formats a name of a {@link TarEntry} for a message: short, quoted, without control characters. */
export function showName(name: string): string {
  const text = textOfBytes(name);
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}...` : text);
}

/** The fields of one header block, as stored. */
export interface TarHeader {
  /** One character. NUL is the V7 type of a file, or of a directory if the name ends in a slash. */
  readonly type: string;
  readonly name: string;
  readonly link: string;
  readonly mode: number;
  readonly mtime: number;
  readonly size: number;
  readonly major: number;
  readonly minor: number;
}

const zeros = Buffer.alloc(tarBlockSize);

export function isZeroBlock(block: Buffer): boolean {
  return block[0] === 0 && block.equals(zeros);
}

/**
 * Reads a header block in any of the common formats: V7, ustar, GNU, star.
 * Throws {@link TarError} for a damaged block.
 * Sources: POSIX.1-2017, pax, ustar Interchange Format; GNU tar manual, Basic Tar Format.
 */
export function readHeader(block: Buffer): TarHeader {
  if (!hasRightSum(block)) throw damaged();
  const type = block.toString('latin1', 156, 157);
  const isDevice = type === '3' || type === '4';
  const name = textAt(block, 0, 100);
  const prefix = prefixOf(block);
  return {
    type,
    name: prefix === '' ? name : `${prefix}/${name}`,
    link: textAt(block, 157, 100),
    mode: numberAt(block, 100, 8) & 0o7777,
    mtime: numberAt(block, 136, 12),
    size: numberAt(block, 124, 12),
    major: isDevice ? numberAt(block, 329, 8) : 0,
    minor: isDevice ? numberAt(block, 337, 8) : 0,
  };
}

/** Reads the owner in a header block. Throws {@link TarError} for a damaged one. */
export function readOwner(block: Buffer): TarOwner {
  return { uid: numberAt(block, 108, 8), gid: numberAt(block, 116, 8) };
}

/** Reads the names of the owner in a header block. The oldest format has none. */
export function readNames(block: Buffer): TarNames {
  if (block.toString('latin1', 257, 262) !== 'ustar') return { user: '', group: '' };
  return { user: textAt(block, 265, 32), group: textAt(block, 297, 32) };
}

/** Returns true if an archive can begin with this block: a header, or zeros in an empty one. */
export function isTarStart(block: Buffer): boolean {
  try {
    return isZeroBlock(block) || hasRightSum(block);
  } catch {
    return false;
  }
}

/** Writes another time into a header block: seconds since the epoch. */
export function setTime(block: Buffer, mtime: number): void {
  block.write(`${mtime.toString(8).padStart(11, '0')}\0`, 136, 'latin1');
  setSum(block);
}

/** Writes the checksum of a header block. */
export function setSum(block: Buffer, end = '\0 '): void {
  block.fill(0x20, 148, 156);
  let sum = 0;
  // By index: an iterator takes twelve times as long, and each file has a block.
  for (let at = 0; at < tarBlockSize; at += 1) sum += block[at] as number;
  block.write(sum.toString(8).padStart(6, '0') + end, 148, 'latin1');
}

function prefixOf(block: Buffer): string {
  // GNU stores times in the place of the ustar prefix, and has a different magic.
  if (block.toString('latin1', 257, 263) !== 'ustar\0') return '';
  const isStar = block.toString('latin1', 508, 512) === 'tar\0';
  return textAt(block, 345, isStar ? 131 : 155);
}

function textAt(block: Buffer, offset: number, length: number): string {
  const zero = block.indexOf(0, offset);
  const end = zero < 0 || zero > offset + length ? offset + length : zero;
  return block.toString('latin1', offset, end);
}

/** Reads a number in octal digits, or in base 256 if the highest bit is set. */
function numberAt(block: Buffer, offset: number, length: number): number {
  const first = block[offset] ?? 0;
  if ((first & 0x80) !== 0) return base256(block.subarray(offset, offset + length));
  const text = textAt(block, offset, length).trim();
  if (text === '') return 0;
  if (!/^[0-7]+$/.test(text)) throw damaged();
  return Number.parseInt(text, 8);
}

/** Reads a big-endian number in two's complement, after the bit that marks base 256. */
function base256(bytes: Buffer): number {
  const isNegative = ((bytes[0] ?? 0) & 0x40) !== 0;
  let value = 0;
  for (const [index, byte] of bytes.entries()) {
    value = value * 256 + ((isNegative ? ~byte : byte) & (index === 0 ? 0x7f : 0xff));
  }
  return isNegative ? -1 - value : value;
}

/** Accepts both checksums: some old programs added signed bytes. */
function hasRightSum(block: Buffer): boolean {
  const stored = numberAt(block, 148, 8);
  let sum = 8 * 0x20;
  let high = 0;
  for (let index = 0; index < tarBlockSize; index += 1) {
    if (index === 148) index = 156;
    const byte = block[index] ?? 0;
    sum += byte;
    high += byte >> 7;
  }
  return stored === sum || stored === sum - 256 * high;
}

function damaged(): TarError {
  return new TarError('is not a tar archive, or is damaged');
}

/** The records of extended attributes begin with this. */
export const attributePrefix = 'SCHILY.xattr.';

/**
 * Reads the records of a PAX extended header. Values have one character per byte. An empty value deletes a
 * record. Throws {@link TarError} for a damaged header. Source: POSIX.1-2017, pax, pax Extended Header.
 *
 * @param keepsEmpty true to return attributes with an empty value
 */
export function readPaxRecords(body: Buffer, keepsEmpty = false): Map<string, string> {
  const records = new Map<string, string>();
  const parts: string[] = [];
  let count = 0;
  for (let start = 0; start < body.length; ) {
    count += 1;
    if (count > maxPaxRecords) {
      throw new TarError(`has a PAX header of more than ${maxPaxRecords} records`);
    }
    const blank = body.indexOf(0x20, start);
    const digits = blank < 0 ? '' : body.toString('latin1', start, Math.min(blank, start + 16));
    const length = /^\d+$/.test(digits) ? Number(digits) : 0;
    const end = start + length;
    const equals = body.indexOf(0x3d, blank);
    const isWhole = length > 0 && end <= body.length && body[end - 1] === 0x0a;
    if (!isWhole || equals < 0 || equals >= end) throw new TarError('has a damaged PAX header');
    const value = body.toString('latin1', equals + 1, end - 1);
    const keyword = body.toString('latin1', blank + 1, equals);
    // The oldest format for the data parts of a sparse file: a record for each offset and each length.
    if (/^GNU\.sparse\.(?:offset|numbytes)$/.test(keyword)) parts.push(value);
    else if (value === '' && !(keepsEmpty && keyword.startsWith(attributePrefix))) {
      records.delete(keyword);
    } else records.set(keyword, value);
    start = end;
  }
  if (parts.length > 0) records.set('GNU.sparse.map', parts.join(','));
  return records;
}

/** Returns a record as a PAX extended header stores it: `length keyword=value`. The length counts its own digits. */
export function paxRecord(keyword: string, value: string, encoding: 'utf8' | 'latin1'): Buffer {
  const rest = Buffer.from(` ${keyword}=${value}\n`, encoding);
  let digits = 1;
  while (String(rest.length + digits).length > digits) digits += 1;
  return Buffer.concat([Buffer.from(String(rest.length + digits)), rest]);
}
