import {
  bytesOf,
  paddedSize,
  paxRecord,
  setSum,
  type TarEntry,
  type TarKind,
  type TarOwner,
  tarBlockSize,
} from './tar-entry.ts';

/** An entry to write. Default: no content, no link, and the time that the form says. */
export type WrittenEntry = Pick<TarEntry, 'path' | 'kind' | 'mode'> & Partial<TarEntry>;

/**
 * How numbers are written. All three forms are correct, and each has made bytes whose digests must stay the same:
 * see docs/adr/0067.
 */
interface TarForm {
  readonly magic: string;
  /** Digits of a number in a field of eight bytes, and what follows them. */
  readonly digits: 6 | 7;
  readonly end: '' | ' ';
}

const gnu: TarForm = { magic: 'ustar  \0', digits: 7, end: '' };
const ustar: TarForm = { magic: 'ustar\x0000', digits: 7, end: '' };
const packed: TarForm = { magic: 'ustar\x0000', digits: 6, end: ' ' };

const types = {
  file: '0',
  link: '1',
  symlink: '2',
  'character-device': '3',
  'block-device': '4',
  directory: '5',
  fifo: '6',
} as const satisfies Record<TarKind, string>;
const nameBytes = 100;
const prefixBytes = 155;
const maxOctalSize = 8 ** 11;
const maxOctalOwner = 8 ** 7;
/** A squashfs stores times in 32 bits. */
const maxMtime = 2 ** 32 - 1;
const printable = /^[\x20-\x7e]*$/;

/** 1980-01-01, the first day that zip files and exFAT know. Files of packages are not older, as in rattler. */
export const firstTime = 315_532_800;

/** The end of a tar file: two blocks of zeros. */
export const tarEnd = Buffer.alloc(2 * tarBlockSize);

/** Returns the zeros after content of the given size (bytes). */
export function tarPadding(size: number): Buffer {
  return tarEnd.subarray(0, paddedSize(size) - size);
}

/**
 * Returns the header of an entry in GNU's format, for layers made of Singularity images: a longer name has its own entry
 * before the header. Names are bytes. Default time: 0. PAX is used for attributes only.
 */
export function gnuHeader(entry: WrittenEntry): Buffer {
  const { path, link = '', mtime = 0, attributes = [] } = entry;
  const parts: Buffer[] = [];
  if (attributes.length > 0) {
    const records = attributes.map(([name, value]) =>
      paxRecord(`SCHILY.xattr.${name}`, value, 'latin1'),
    );
    parts.push(...extension('x', 'PaxHeader', Buffer.concat(records), 0o644));
  }
  const long = (type: string, text: string) =>
    parts.push(...extension(type, '././@LongLink', Buffer.from(`${text}\0`, 'latin1'), 0));
  if (link.length > nameBytes) long('K', link);
  if (path.length > nameBytes) long('L', path);
  const block = headerBlock(gnu, {
    ...entry,
    type: types[entry.kind],
    name: path.slice(0, nameBytes),
    link: link.slice(0, nameBytes),
    mtime: Math.min(Math.max(mtime, 0), maxMtime),
  });
  return parts.length === 0 ? block : Buffer.concat([...parts, block]);
}

function extension(type: string, name: string, body: Buffer, mode: number): Buffer[] {
  return [headerBlock(gnu, { type, name, mode, size: body.length }), body, tarPadding(body.length)];
}

/**
 * Returns the header of an entry that belongs to user and group 0, for layers of packages: ustar, with a PAX header only
 * for what ustar cannot hold. Names are text. Default time: {@link firstTime}. Sources: POSIX.1-2017, pax, ustar Interchange Format and pax Extended Header.
 */
export function ustarHeader({
  path,
  kind,
  mode,
  mtime = firstTime,
  size = 0,
  link = '',
}: WrittenEntry): Buffer {
  const name = kind === 'directory' ? `${path}/` : path;
  const split = printable.test(name) ? splitName(name) : undefined;
  const isSplit = split !== undefined && split.name !== '';
  const isLinkPlain = link.length <= nameBytes && printable.test(link);
  const records: Buffer[] = [];
  if (!isLinkPlain) records.push(paxRecord('linkpath', link, 'utf8'));
  if (!isSplit) records.push(paxRecord('path', name, 'utf8'));
  if (size >= maxOctalSize) records.push(paxRecord('size', String(size), 'utf8'));
  const block = headerBlock(ustar, {
    ...(isSplit ? split : { name: plain(name) }),
    type: types[kind],
    mode,
    mtime,
    size: size < maxOctalSize ? size : 0,
    link: isLinkPlain ? link : plain(link),
  });
  if (records.length === 0) return block;
  const body = Buffer.concat(records);
  const pax = { type: 'x', name: 'PaxHeader', mode: 0o644, mtime, size: body.length };
  return Buffer.concat([headerBlock(ustar, pax), body, tarPadding(body.length), block]);
}

/** Returns the beginning of a name for programs that do not know PAX. */
function plain(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '_').slice(0, nameBytes);
}

/**
 * Returns the header of an entry without time and owner, for layers and build contexts that a client packs: the bytes of
 * tar-stream. Names are text.
 */
export function packedHeader({ path, kind, mode, size = 0, link = '' }: WrittenEntry): Buffer {
  const name = kind === 'directory' ? `${path}/` : path;
  const isAscii = Buffer.byteLength(name) === name.length;
  const split = isAscii && Buffer.byteLength(link) <= nameBytes ? splitName(name) : undefined;
  const common = { type: types[kind], mode, size };
  if (split) return headerBlock(packed, { ...common, ...split, link: bytesOf(link) });
  const records = [paxRecord('path', name, 'utf8')];
  if (link !== '') records.push(paxRecord('linkpath', link, 'utf8'));
  const body = Buffer.concat(records);
  const short = { name: 'PaxHeader', mode, link: link === '' ? '' : 'PaxHeader' };
  return Buffer.concat([
    headerBlock(packed, { ...short, type: 'x', size: body.length }),
    body,
    tarPadding(body.length),
    headerBlock(packed, { ...short, ...common }),
  ]);
}

/** Returns the two fields of a name: as few leading directories in the prefix as possible. Undefined if it does not fit. */
function splitName(name: string): { name: string; prefix: string } | undefined {
  if (name.length <= nameBytes) return { name, prefix: '' };
  const at = name.indexOf('/', name.length - nameBytes - 1);
  const isPossible = at > 0 && at <= prefixBytes;
  return isPossible ? { name: name.slice(at + 1), prefix: name.slice(0, at) } : undefined;
}

/** Fields of a header, whose names fit. */
interface Fields {
  readonly type: string;
  readonly name: string;
  readonly prefix?: string;
  readonly link?: string;
  readonly mode: number;
  readonly mtime?: number;
  readonly size?: number;
  readonly owner?: TarOwner;
  readonly device?: TarEntry['device'];
}

function headerBlock(form: TarForm, fields: Fields): Buffer {
  const { name, link = '', prefix = '', mode, mtime = 0, size = 0, owner, device } = fields;
  const { digits, end } = form;
  // Every file has a header, so allocate it from the buffer pool.
  const block = Buffer.allocUnsafe(tarBlockSize).fill(0);
  const octal = (at: number, value: number, length: number) =>
    block.write(value.toString(8).padStart(length, '0') + end, at, 'latin1');
  block.write(name, 0, 'latin1');
  octal(100, mode, digits);
  if (size < maxOctalSize) octal(124, size, 11);
  else writeBase256(block, 124, 12, size);
  octal(136, mtime, 11);
  const id = (at: number, value: number) =>
    value < maxOctalOwner ? octal(at, value, digits) : writeBase256(block, at, 8, value);
  id(108, owner?.uid ?? 0);
  id(116, owner?.gid ?? 0);
  block.write(fields.type, 156, 'latin1');
  block.write(link, 157, 'latin1');
  block.write(form.magic, 257, 'latin1');
  if (device || form === packed) {
    // Linux has 12 bits for the major and 20 bits for the minor number.
    octal(329, (device?.major ?? 0) & 0xfff, digits);
    octal(337, (device?.minor ?? 0) & 0xfffff, digits);
  }
  block.write(prefix, 345, 'latin1');
  setSum(block, end === '' ? '\0 ' : ' \0');
  return block;
}

/** Writes a number that has more octal digits than its field: a marker, then the number. */
function writeBase256(block: Buffer, at: number, length: number, value: number): void {
  block.writeBigUInt64BE(BigInt(value), at + length - 8);
  block[at] = 0x80;
}
