import { TarError, type TarOwner, tarBlockSize } from './tar-entry.ts';

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
