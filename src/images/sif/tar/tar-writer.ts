import {
  type Attributes,
  paddedSize,
  type TarEntry,
  type TarKind,
  tarBlockSize,
} from './tar-entry.ts';

const types: Readonly<Record<TarKind, string>> = {
  file: '0',
  link: '1',
  symlink: '2',
  'character-device': '3',
  'block-device': '4',
  directory: '5',
  fifo: '6',
};
const nameBytes = 100;
const longName = '././@LongLink';
const maxOctalSize = 8 ** 11;
const maxOctalOwner = 8 ** 7;
/** mksquashfs stores times in 32 bits. */
const maxMtime = 2 ** 32 - 1;

/**
 * Returns the header of an entry in GNU's format: a longer name has its own entry before the header. PAX is used for
 * attributes only: mksquashfs 4.5 removes leading `/`, `./` and `../` from the target of a symbolic link in a PAX
 * header.
 */
export function tarHeader(entry: TarEntry): Buffer {
  const parts: Buffer[] = [];
  if (entry.attributes && entry.attributes.length > 0) parts.push(...paxHeader(entry.attributes));
  if (entry.link.length > nameBytes) parts.push(...longText('K', entry.link));
  if (entry.path.length > nameBytes) parts.push(...longText('L', entry.path));
  const block = header(types[entry.kind], entry.path, entry.size, entry.mode);
  block.write(entry.link.slice(0, nameBytes), 157, 'latin1');
  writeOctal(block, 136, 12, Math.min(Math.max(entry.mtime, 0), maxMtime));
  if (entry.owner) {
    writeOwner(block, 108, entry.owner.uid);
    writeOwner(block, 116, entry.owner.gid);
  }
  if (entry.device) {
    // Linux has 12 bits for the major and 20 bits for the minor number.
    writeOctal(block, 329, 8, entry.device.major & 0xfff);
    writeOctal(block, 337, 8, entry.device.minor & 0xfffff);
  }
  const last = sealed(block);
  return parts.length === 0 ? last : Buffer.concat([...parts, last]);
}

/** The end of a tar file: two blocks of zeros. */
export const tarEnd = Buffer.alloc(2 * tarBlockSize);

/** Source: POSIX.1-2017, pax Extended Header. The record names are those of star. */
function paxHeader(attributes: Attributes): Buffer[] {
  const records = attributes.map(([name, value]) => {
    const rest = ` SCHILY.xattr.${name}=${value}\n`;
    // The length counts its own digits.
    let length = rest.length + 1;
    while (String(length).length + rest.length !== length) length += 1;
    return `${length}${rest}`;
  });
  const text = Buffer.from(records.join(''), 'latin1');
  const body = Buffer.alloc(paddedSize(text.length));
  text.copy(body);
  return [sealed(header('x', 'PaxHeader', text.length, 0o644)), body];
}

function longText(type: string, text: string): Buffer[] {
  const body = Buffer.alloc(Math.ceil((text.length + 1) / tarBlockSize) * tarBlockSize);
  body.write(text, 0, 'latin1');
  return [sealed(header(type, longName, text.length + 1, 0)), body];
}

function header(type: string, name: string, size: number, mode: number): Buffer {
  // Every file has a header, so allocate it from the buffer pool.
  const block = Buffer.allocUnsafe(tarBlockSize).fill(0);
  block.write(name.slice(0, nameBytes), 0, 'latin1');
  writeOctal(block, 100, 8, mode);
  writeOctal(block, 108, 8, 0);
  writeOctal(block, 116, 8, 0);
  if (size < maxOctalSize) writeOctal(block, 124, 12, size);
  else writeBase256(block, 124, size);
  writeOctal(block, 136, 12, 0);
  block.write(type, 156, 'latin1');
  block.write('ustar  \0', 257, 'latin1');
  return block;
}

function writeOctal(block: Buffer, at: number, length: number, value: number): void {
  block.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
}

/** Writes eight bytes. Seven octal digits do not hold every 32-bit number. */
function writeOwner(block: Buffer, at: number, id: number): void {
  if (id < maxOctalOwner) {
    writeOctal(block, at, 8, id);
    return;
  }
  block.writeUInt32BE(0x8000_0000, at);
  block.writeUInt32BE(id, at + 4);
}

/** Writes twelve bytes: a marker, then the number. */
function writeBase256(block: Buffer, at: number, value: number): void {
  block[at] = 0x80;
  block.writeBigUInt64BE(BigInt(value), at + 4);
}

function sealed(block: Buffer): Buffer {
  block.fill(0x20, 148, 156);
  let sum = 0;
  for (let index = 0; index < tarBlockSize; index += 1) sum += block[index] ?? 0;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
