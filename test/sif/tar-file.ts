import { gzipSync, zstdCompressSync } from 'node:zlib';
import { contentOf, mediaTypes, sha256 } from '../corpus/content.ts';
import type { Compression, Layer } from '../corpus/layer.ts';

/** One entry of a tar file, unchecked: names may lead anywhere, types may be unknown. */
export interface TarPart {
  readonly name: string | Buffer;
  /** Default: a file. */
  readonly type?: keyof typeof types;
  readonly content?: string | Buffer;
  readonly link?: string | Buffer;
  readonly mode?: number;
  readonly mtime?: number;
  readonly uid?: number;
  readonly device?: readonly [major: number, minor: number];
  /** Records of a PAX header before it. */
  readonly pax?: Readonly<Record<string, string | Buffer>>;
  /** How a name or link that is too long for the header is written. Default: PAX. */
  readonly long?: 'pax' | 'gnu';
  /** How numbers are written. */
  readonly numbers?: 'octal' | 'base-256';
  /** What is written where ustar has its prefix. */
  readonly prefix?: string;
  readonly magic?: string;
}

export const types = {
  file: '0',
  link: '1',
  symlink: '2',
  character: '3',
  block: '4',
  directory: '5',
  fifo: '6',
  contiguous: '7',
  v7: '\0',
  pax: 'x',
  'global-pax': 'g',
  'gnu-name': 'L',
  'gnu-link': 'K',
  'gnu-sparse': 'S',
  'gnu-volume': 'V',
} as const;

const blockSize = 512;
const nameSize = 100;

/** A tar file; `end: false` leaves out the two empty blocks. */
export function tarOf(parts: readonly TarPart[], { end = true } = {}): Buffer {
  const blocks = parts.flatMap(partBlocks);
  return Buffer.concat([...blocks, Buffer.alloc(end ? 2 * blockSize : 0)]);
}

/** A layer of these entries. */
export function tarLayer(parts: readonly TarPart[], compression: Compression = 'gzip'): Layer {
  return layerOfTar(tarOf(parts), compression);
}

export function layerOfTar(tar: Buffer, compression: Compression = 'gzip'): Layer {
  const packed = { gzip: gzipSync, zstd: zstdCompressSync, none: (bytes: Buffer) => bytes };
  const suffix = compression === 'none' ? '' : `+${compression}`;
  const content = contentOf(`${mediaTypes.ociLayer}${suffix}`, packed[compression](tar));
  return { content, diffId: sha256(tar) };
}

function partBlocks(part: TarPart): Buffer[] {
  const name = Buffer.from(part.name);
  const link = Buffer.from(part.link ?? '');
  const content = Buffer.from(part.content ?? '');
  const pax: Record<string, string | Buffer> = { ...part.pax };
  const before: Buffer[] = [];
  for (const [text, keyword, type] of [
    [name, 'path', 'gnu-name'],
    [link, 'linkpath', 'gnu-link'],
  ] as const) {
    if (text.length <= nameSize) continue;
    if (part.long === 'gnu') before.push(...longText(type, text));
    else pax[keyword] = text;
  }
  if (Object.keys(pax).length > 0) {
    before.push(...partBlocks({ name: 'PaxHeader', type: 'pax', content: paxRecords(pax) }));
  }
  return [...before, header(part, name, link, content.length), content, paddingOf(content.length)];
}

function longText(type: 'gnu-name' | 'gnu-link', text: Buffer): Buffer[] {
  const content = Buffer.concat([text, Buffer.alloc(1)]);
  return partBlocks({ name: '././@LongLink', type, content });
}

/** Source: POSIX.1-2017, pax Extended Header: the length counts its own digits. */
export function paxRecords(records: Readonly<Record<string, string | Buffer>>): Buffer {
  return Buffer.concat(
    Object.entries(records).map(([keyword, value]) => {
      const rest = Buffer.concat([
        Buffer.from(` ${keyword}=`),
        Buffer.from(value),
        Buffer.from('\n'),
      ]);
      let length = rest.length + 1;
      while (String(length).length + rest.length !== length) length += 1;
      return Buffer.concat([Buffer.from(String(length)), rest]);
    }),
  );
}

function header(part: TarPart, name: Buffer, link: Buffer, size: number): Buffer {
  const block = Buffer.alloc(blockSize);
  const write = part.numbers === 'base-256' ? base256 : octal;
  name.copy(block, 0, 0, nameSize);
  write(block, 100, 8, part.mode ?? (part.type === 'directory' ? 0o755 : 0o644));
  write(block, 108, 8, part.uid ?? 0);
  write(block, 116, 8, part.uid ?? 0);
  write(block, 124, 12, size);
  write(block, 136, 12, part.mtime ?? 0);
  block.write(types[part.type ?? 'file'], 156, 'latin1');
  link.copy(block, 157, 0, nameSize);
  block.write(part.magic ?? 'ustar\x0000', 257, 'latin1');
  if (part.device) {
    write(block, 329, 8, part.device[0]);
    write(block, 337, 8, part.device[1]);
  }
  block.write(part.prefix ?? '', 345, 'latin1');
  block.fill(' ', 148, 156);
  const sum = sumOf(block);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}

function octal(block: Buffer, at: number, length: number, value: number): void {
  block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
}

function base256(block: Buffer, at: number, length: number, value: number): void {
  const number = BigInt.asUintN(8 * length - 1, BigInt(value)) | (1n << BigInt(8 * length - 1));
  block.write(number.toString(16).padStart(2 * length, '0'), at, 'hex');
}

function paddingOf(size: number): Buffer {
  return Buffer.alloc((blockSize - (size % blockSize)) % blockSize);
}

/** The checksum of a header whose own checksum is blank. A callback for each byte would take most of a test's time. */
export function sumOf(header: Uint8Array): number {
  let sum = 0;
  for (const byte of header) sum += byte;
  return sum;
}
