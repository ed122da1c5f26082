import { paddedSize, tarBlockSize } from '../../images/sif/tar/tar-entry.ts';

/** 1980-01-01, the first day that zip files and exFAT know. Files of packages are not older, as in rattler. */
export const firstTime = 315_532_800;

/** An entry of a layer. */
export interface LayerTarEntry {
  readonly path: string;
  readonly kind: 'file' | 'link' | 'symlink' | 'directory';
  readonly mode: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Bytes of content; 0 for anything but a file. */
  readonly size: number;
  /** Target of a link; empty for other kinds. */
  readonly link: string;
}

const types = { file: '0', link: '1', symlink: '2', directory: '5' } as const;
const nameBytes = 100;
const prefixBytes = 155;
const maxOctalSize = 8 ** 11;
const zeros = Buffer.alloc(tarBlockSize);
const isAscii = /^[\x20-\x7e]*$/;

/**
 * Returns the header of an entry that belongs to user and group 0: ustar, with a PAX header only for what ustar cannot
 * hold. Sources: POSIX.1-2017, pax, ustar Interchange Format and pax Extended Header.
 */
export function layerTarHeader({ path, kind, mode, mtime, size, link }: LayerTarEntry): Buffer {
  const name = kind === 'directory' ? `${path}/` : path;
  const split = splitName(name);
  const records: [string, string][] = [];
  if (link !== '' && !fits(link)) records.push(['linkpath', link]);
  if (split === undefined) records.push(['path', name]);
  if (size >= maxOctalSize) records.push(['size', String(size)]);
  const block = ustarBlock(types[kind], {
    ...(split ?? { name: plain(name).slice(0, nameBytes), prefix: '' }),
    mode,
    mtime,
    size: size < maxOctalSize ? size : 0,
    link: fits(link) ? link : plain(link).slice(0, nameBytes),
  });
  return records.length === 0 ? block : Buffer.concat([...paxBlocks(records, mtime), block]);
}

/** Returns the zeros after content, which is stored in whole blocks. */
export function layerTarPadding(size: number): Buffer {
  return zeros.subarray(0, paddedSize(size) - size);
}

function fits(text: string): boolean {
  return text.length <= nameBytes && isAscii.test(text);
}

/** Returns the two fields of a name, or undefined for a name that does not fit. */
function splitName(name: string): { name: string; prefix: string } | undefined {
  if (fits(name)) return { name, prefix: '' };
  if (!isAscii.test(name) || name.length > nameBytes + prefixBytes + 1) return undefined;
  const at = name.indexOf('/', name.length - nameBytes - 1);
  const isPossible = at > 0 && at <= prefixBytes && at < name.length - 1;
  return isPossible ? { name: name.slice(at + 1), prefix: name.slice(0, at) } : undefined;
}

/** Returns a name for programs that do not know PAX. */
function plain(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '_');
}

function paxBlocks(records: readonly (readonly [string, string])[], mtime: number): Buffer[] {
  const lines = records.map(([key, value]) => {
    const rest = Buffer.byteLength(` ${key}=${value}\n`);
    // The length counts its own digits.
    let length = rest + 1;
    while (String(length).length + rest !== length) length += 1;
    return `${length} ${key}=${value}\n`;
  });
  const text = Buffer.from(lines.join(''));
  const fields = { name: 'PaxHeader', prefix: '', mode: 0o644, mtime, size: text.length, link: '' };
  return [ustarBlock('x', fields), text, layerTarPadding(text.length)];
}

interface Fields {
  readonly name: string;
  readonly prefix: string;
  readonly mode: number;
  readonly mtime: number;
  readonly size: number;
  readonly link: string;
}

function ustarBlock(type: string, { name, prefix, mode, mtime, size, link }: Fields): Buffer {
  // Unlike memory from `alloc`, this is part of a larger piece: a package has a block for each of its files.
  const block = Buffer.allocUnsafe(tarBlockSize).fill(0);
  block.write(name, 0, 'latin1');
  writeOctal(block, 100, 8, mode);
  writeOctal(block, 108, 8, 0);
  writeOctal(block, 116, 8, 0);
  writeOctal(block, 124, 12, size);
  writeOctal(block, 136, 12, mtime);
  block.write(type, 156, 'latin1');
  block.write(link, 157, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  block.write(prefix, 345, 'latin1');
  block.fill(0x20, 148, 156);
  let sum = 0;
  // By index: an iterator takes twelve times as long, and a package has a block for each of its files.
  for (let at = 0; at < tarBlockSize; at += 1) sum += block[at] as number;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

function writeOctal(block: Buffer, at: number, length: number, value: number): void {
  block.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
}
