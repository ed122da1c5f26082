import { pauseTurn } from '../../../../foundation/pause-turn.ts';
import type { ImageTree } from '../../layers/tree.ts';
import type { Compression } from '../compression.ts';
import { type CompressBlock, openBlockCompressor } from './block-compressor.ts';
import type { Fragment } from './content-writer.ts';
import { storedTime } from './inode-record.ts';
import { metadataBytes, storedMetadata } from './metadata-writer.ts';
import { RecordTable } from './record-table.ts';
import { Appender, type SquashfsOutput } from './squashfs-output.ts';
import { TreeWriter } from './tree-writer.ts';
import { blockBytes, type WrittenInodes } from './written-inodes.ts';

/** What the superblock says of a squashfs. */
export interface SquashfsOptions {
  readonly compression: Compression;
  /** False if the content of files is stored as it is. */
  readonly isCompressed: boolean;
  /** Seconds since the epoch. */
  readonly time: number;
}

/** What is written before its description. */
export interface WrittenContents {
  readonly fragments: readonly Fragment[];
  /** Position after the content. */
  readonly end: number;
  readonly inodes: WrittenInodes;
}

const superblockBytes = 96;
const magic = 0x73717368;
const compressors = { gzip: 1, zstd: 6 } as const;
/** Bits of the superblock. */
const contentIsStored = 0x2 + 0x8;
const duplicatesAreMerged = 0x40;
const isExportable = 0x80;
const hasNoAttributes = 0x200;
const hasCompressorOptions = 0x400;
const noTable = 0xffff_ffff_ffff_ffffn;
/** A block device has whole blocks. */
const paddedTo = 4096;
const zlibWindow = 15;
const recordsPerTurn = 1024;

/** Returns the position at which the content of files begins. */
export function contentStart(compression: Compression): number {
  return superblockBytes + compressorOptions(compression).length;
}

/** Returns what follows the superblock: the level of the compression. */
function compressorOptions({ mode, level }: Compression): Buffer {
  const options = Buffer.alloc(mode === 'gzip' ? 8 : 4);
  options.writeUInt32LE(level);
  if (mode === 'gzip') options.writeUInt16LE(zlibWindow, 4);
  return storedMetadata(options);
}

/**
 * Writes all of a squashfs 4.0 but the content of files, which is written already. Throws when the signal is aborted.
 * Source: Linux, Documentation/filesystems/squashfs.rst and fs/squashfs/squashfs_fs.h.
 *
 * @returns bytes of the squashfs
 */
export async function writeDescription(
  tree: ImageTree,
  { fragments, end, inodes }: WrittenContents,
  { compression, isCompressed, time }: SquashfsOptions,
  output: SquashfsOutput,
  signal: AbortSignal,
): Promise<number> {
  const compress = openBlockCompressor(compression, metadataBytes);
  const file = new Appender(output, end);
  const writer = new TreeWriter(inodes, compress, file, signal);
  await writer.write(tree);
  const directories = file.position;
  await file.add(writer.lists.takeBlocks());

  const fragmentTable = new RecordTable(compress);
  for (const [index, { start, word }] of fragments.entries()) {
    const record = Buffer.alloc(16);
    record.writeBigUInt64LE(BigInt(start));
    record.writeUInt32LE(word, 8);
    fragmentTable.add(record);
    if (index % recordsPerTurn === 0) await pauseTurn();
  }
  // Readers expect the tables in this order, without gaps.
  const fragmentsAt = await fragmentTable.writeTo(file);
  const exportsAt = await (await exportTable(inodes, writer.count, compress)).writeTo(file);
  const owners = new RecordTable(compress);
  // Root owns everything.
  owners.add(Buffer.alloc(4));
  const ownersAt = await owners.writeTo(file);
  const { count: attributeCount, values, records } = writer.attributes;
  let attributesAt = noTable;
  if (attributeCount > 0) {
    const head = Buffer.alloc(16);
    head.writeBigUInt64LE(BigInt(file.position));
    head.writeUInt32LE(attributeCount, 8);
    values.end();
    await file.add(values.takeBlocks());
    attributesAt = await records.writeTo(file, head);
  }

  const superblock = Buffer.alloc(superblockBytes);
  superblock.writeUInt32LE(magic);
  superblock.writeUInt32LE(writer.count, 4);
  superblock.writeUInt32LE(storedTime(time), 8);
  superblock.writeUInt32LE(blockBytes, 12);
  superblock.writeUInt32LE(fragments.length, 16);
  superblock.writeUInt16LE(compressors[compression.mode], 20);
  superblock.writeUInt16LE(Math.log2(blockBytes), 22);
  const flags =
    duplicatesAreMerged +
    isExportable +
    hasCompressorOptions +
    (isCompressed ? 0 : contentIsStored) +
    (attributeCount > 0 ? 0 : hasNoAttributes);
  superblock.writeUInt16LE(flags, 24);
  superblock.writeUInt16LE(1, 26);
  superblock.writeUInt16LE(4, 28);
  superblock.writeBigUInt64LE(BigInt(writer.rootPlace), 32);
  superblock.writeBigUInt64LE(BigInt(file.position), 40);
  superblock.writeBigUInt64LE(ownersAt, 48);
  superblock.writeBigUInt64LE(attributesAt, 56);
  superblock.writeBigUInt64LE(BigInt(end), 64);
  superblock.writeBigUInt64LE(BigInt(directories), 72);
  superblock.writeBigUInt64LE(fragmentsAt, 80);
  superblock.writeBigUInt64LE(exportsAt, 88);
  const padding = paddedTo - (file.position % paddedTo);
  if (padding < paddedTo) await file.add([Buffer.alloc(padding)]);
  await output.write(Buffer.concat([superblock, compressorOptions(compression)]), 0);
  return file.position;
}

/** Returns the table of the places of all inodes, by which a file is found that NFS has exported. */
async function exportTable(
  inodes: WrittenInodes,
  count: number,
  compress: CompressBlock,
): Promise<RecordTable> {
  const table = new RecordTable(compress);
  for (let number = 1; number <= count; number += 1) {
    const record = Buffer.allocUnsafe(8);
    record.writeBigUInt64LE(BigInt(inodes.placeOf(number)));
    table.add(record);
    if (number % recordsPerTurn === 0) await pauseTurn();
  }
  return table;
}
