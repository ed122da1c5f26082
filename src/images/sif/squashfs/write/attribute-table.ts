import { hash } from 'node:crypto';
import type { Attributes } from '../../../../archives/index.ts';
import { pauseTurn } from '../../../../foundation/pause-turn.ts';
import type { CompressBlock } from './block-compressor.ts';
import { noAttributes } from './inode-record.ts';
import { MetadataWriter } from './metadata-writer.ts';
import { RecordTable } from './record-table.ts';

/** Numbers of the prefixes, which are not stored in the names. Tar files give no others than `user.`. */
const prefixes = { 'user.': 0, 'trusted.': 1, 'security.': 2 } as const;

/** The extended attributes of all files. */
export class AttributeTable {
  readonly records: RecordTable;
  readonly values: MetadataWriter;
  readonly #known = new Map<string, number>();

  constructor(compress: CompressBlock) {
    this.records = new RecordTable(compress);
    this.values = new MetadataWriter(compress);
  }

  /** Number of different sets of attributes. */
  get count(): number {
    return this.#known.size;
  }

  /** Returns the index of a set of attributes, which files share. Yields to other work: a set may have many blocks. */
  async indexOf(attributes: Attributes): Promise<number> {
    const stored = attributes.flatMap(([name, value]) => {
      const prefix = Object.entries(prefixes).find(([prefix]) => name.startsWith(prefix));
      return prefix ? [{ type: prefix[1], name: name.slice(prefix[0].length), value }] : [];
    });
    if (stored.length === 0) return noAttributes;
    await pauseTurn();
    const key = hash('sha256', JSON.stringify(stored), 'base64');
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const { place } = this.values;
    let bytes = 0;
    for (const { type, name, value } of stored) {
      const entry = Buffer.alloc(8 + name.length + value.length);
      entry.writeUInt16LE(type);
      entry.writeUInt16LE(name.length, 2);
      entry.write(name, 4, 'latin1');
      entry.writeUInt32LE(value.length, 4 + name.length);
      entry.write(value, 8 + name.length, 'latin1');
      await this.values.addInTurns(entry);
      bytes += entry.length;
    }
    const record = Buffer.alloc(16);
    record.writeBigUInt64LE(BigInt(place));
    record.writeUInt32LE(stored.length, 8);
    record.writeUInt32LE(bytes, 12);
    this.records.add(record);
    const index = this.#known.size;
    this.#known.set(key, index);
    return index;
  }
}
