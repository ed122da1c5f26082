import { createHash } from 'node:crypto';
import { crc32, deflateRawSync } from 'node:zlib';

/** A member of a made zip file. */
export interface MadeMember {
  /** Text, or its bytes. */
  readonly name: string | Buffer;
  readonly content?: string | Buffer;
  /** Kind and permissions. Default: a file of mode 0644. */
  readonly mode?: number;
  readonly isDeflated?: boolean;
  /** Default: the same name. */
  readonly localName?: string;
  /** Changes the entry in the directory of the zip file. */
  readonly change?: (entry: Buffer) => void;
}

const unixVersion = (3 << 8) | 20;
const utf8Flag = 0x800;
const date = 0x21;

/** Returns a zip file with any members, as no program would write it. Source: PKWARE APPNOTE 6.3.9, 4.3. */
export function rawZip(members: readonly MadeMember[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, localName, content = '', mode = 0o100644, isDeflated, change } of members) {
    const bytes = Buffer.from(content);
    const packed = isDeflated ? deflateRawSync(bytes) : bytes;
    const nameBytes = Buffer.from(name);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(utf8Flag, 2);
    common.writeUInt16LE(isDeflated ? 8 : 0, 4);
    common.writeUInt16LE(date, 8);
    common.writeUInt32LE(crc32(bytes), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(bytes.length, 18);
    common.writeUInt16LE(nameBytes.length, 22);
    const local = Buffer.concat([
      ...[Buffer.from('PK\x03\x04'), common, localName ? Buffer.from(localName) : nameBytes],
      packed,
    ]);
    const entry = Buffer.alloc(46 + nameBytes.length);
    entry.write('PK\x01\x02', 'latin1');
    entry.writeUInt16LE(unixVersion, 4);
    common.copy(entry, 6);
    entry.writeUInt32LE((mode << 16) >>> 0, 38);
    entry.writeUInt32LE(offset, 42);
    nameBytes.copy(entry, 46);
    change?.(entry);
    directory.push(entry);
    parts.push(local);
    offset += local.length;
  }
  const list = Buffer.concat(directory);
  return Buffer.concat([...parts, list, ...endOf(members.length, list.length, offset)]);
}

/** Returns what ends a zip file, with numbers of ZIP64 where there are many members. */
function endOf(count: number, bytes: number, start: number): Buffer[] {
  const isLarge = count > 0xfffe;
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  for (const at of [8, 10]) end.writeUInt16LE(isLarge ? 0xffff : count, at);
  end.writeUInt32LE(bytes, 12);
  end.writeUInt32LE(isLarge ? 0xffffffff : start, 16);
  if (!isLarge) return [end];
  const large = Buffer.alloc(56);
  large.write('PK\x06\x06', 'latin1');
  large.writeBigUInt64LE(44n, 4);
  for (const at of [24, 32]) large.writeBigUInt64LE(BigInt(count), at);
  large.writeBigUInt64LE(BigInt(bytes), 40);
  large.writeBigUInt64LE(BigInt(start), 48);
  const locator = Buffer.alloc(20);
  locator.write('PK\x06\x07', 'latin1');
  locator.writeBigUInt64LE(BigInt(start + bytes), 8);
  locator.writeUInt32LE(1, 16);
  return [large, locator, end];
}

export interface MadeWheel {
  /** Default: `made`. */
  readonly name?: string;
  /** Default: `1.0`. */
  readonly version?: string;
  readonly members?: readonly MadeMember[];
  readonly entryPoints?: string;
  /** Lines of `METADATA` after its name and version. */
  readonly metadata?: string;
  /** Default: 1.0. */
  readonly wheelVersion?: string;
  /** Returns the text of `RECORD`. Default: as it should be. */
  readonly record?: (right: string) => string;
}

/** Returns a wheel, as its builder packs it. */
export function wheelOf({
  name = 'made',
  version = '1.0',
  members = [],
  entryPoints,
  metadata = '',
  wheelVersion = '1.0',
  record = right => right,
}: MadeWheel): { readonly fileName: string; readonly bytes: Buffer } {
  const info = `${name}-${version}.dist-info`;
  const about = `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n${metadata}\n\nA package.\n`;
  const all: MadeMember[] = [
    ...members,
    { name: `${info}/METADATA`, content: about, isDeflated: true },
    {
      name: `${info}/WHEEL`,
      content: `Wheel-Version: ${wheelVersion}\nRoot-Is-Purelib: true\nTag: py3-none-any\n`,
    },
    ...(entryPoints === undefined
      ? []
      : [{ name: `${info}/entry_points.txt`, content: entryPoints }]),
  ];
  const lines = all
    .filter(one => !String(one.name).endsWith('/'))
    .map(one => {
      const content = Buffer.from(one.content ?? '');
      const digest = createHash('sha256').update(content).digest('base64url');
      const path = /[",]/.test(String(one.name)) ? JSON.stringify(one.name) : one.name;
      return `${String(path).replaceAll('\\"', '""')},sha256=${digest},${content.length}\n`;
    });
  const right = `${lines.join('')}${info}/RECORD,,\n`;
  const bytes = rawZip([...all, { name: `${info}/RECORD`, content: record(right) }]);
  return { fileName: `${name}-${version}-py3-none-any.whl`, bytes };
}
