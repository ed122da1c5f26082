/**
 * Tar archives of layers and build contexts: ustar, with pax headers for long and non-ASCII names. tar-stream does
 * the same, but installs 6 MB of packages with native modules. Source: POSIX.1-2017, pax.
 */

export type TarEntryType = 'file' | 'link' | 'directory' | 'symlink';

/** A tar entry without time and owner. */
export interface TarEntry {
  /** The name of a directory ends in `/`. */
  readonly name: string;
  readonly type: TarEntryType;
  readonly mode: number;
  /** Target of a symbolic or hard link. */
  readonly linkname?: string;
  /** Bytes of a file. */
  readonly size?: number;
}

const blockSize = 512;
const typeFlags = { file: '0', link: '1', symlink: '2', directory: '5', pax: 'x' } as const;
const maxName = 100;
const maxPrefix = 155;
// The checksum counts its own field as eight spaces.
const emptyChecksum = 8 * 0x20;

interface Header extends Omit<TarEntry, 'type'> {
  readonly type: keyof typeof typeFlags;
  readonly size: number;
}

/** Returns the bytes that precede the content of an entry. */
export function tarHeaders(entry: TarEntry): Buffer[] {
  const header = { ...entry, size: entry.size ?? 0 };
  const plain = ustarHeader(header);
  return plain ? [plain] : paxHeaders(header);
}

/** Returns the padding after content of the given size (bytes). */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((blockSize - (size % blockSize)) % blockSize);
}

/** Returns the end marker of an archive. */
export function tarEnd(): Buffer {
  return Buffer.alloc(2 * blockSize);
}

/** Returns the header of an entry; undefined when its names do not fit. */
function ustarHeader({ name, type, mode, size, linkname = '' }: Header): Buffer | undefined {
  const [prefix, base] = splitName(name);
  if (Buffer.byteLength(name) !== name.length) return undefined;
  if (base.length > maxName || prefix.length > maxPrefix) return undefined;
  if (Buffer.byteLength(linkname) > maxName) return undefined;
  const block = Buffer.alloc(blockSize);
  block.write(base, 0);
  block.write(octal(mode, 6), 100);
  block.write(octal(0, 6), 108);
  block.write(octal(0, 6), 116);
  block.write(octal(size, 11), 124);
  block.write(octal(0, 11), 136);
  block.write(typeFlags[type], 156);
  block.write(linkname, 157);
  block.write('ustar\x0000', 257);
  block.write(octal(0, 6), 329);
  block.write(octal(0, 6), 337);
  block.write(prefix, 345);
  let sum = emptyChecksum;
  for (const byte of block) sum += byte;
  block.write(octal(sum, 6), 148);
  return block;
}

/** Moves leading directories into the prefix until the rest fits. */
function splitName(name: string): [string, string] {
  let cut = 0;
  while (name.length - cut > maxName) {
    const slash = name.indexOf('/', cut);
    if (slash < 0) break;
    cut = slash + 1;
  }
  return [name.slice(0, Math.max(0, cut - 1)), name.slice(cut)];
}

/** Returns a pax header with the names, and a header that readers without pax understand. */
function paxHeaders(header: Header): Buffer[] {
  const { name, linkname, mode, size, type } = header;
  const records = Buffer.from(
    paxRecord('path', name) + (linkname ? paxRecord('linkpath', linkname) : ''),
  );
  const short = { name: 'PaxHeader', mode, ...(linkname ? { linkname: 'PaxHeader' } : {}) };
  return [
    ustarHeader({ ...short, type: 'pax', size: records.length }) ?? Buffer.alloc(0),
    records,
    tarPadding(records.length),
    ustarHeader({ ...short, type, size }) ?? Buffer.alloc(0),
  ];
}

/** Returns `length key=value`; the length counts its own digits. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  const guess = bytes + String(bytes).length;
  return bytes + String(guess).length + rest;
}

function octal(value: number, digits: number): string {
  return `${value.toString(8).padStart(digits, '0')} `;
}
