import { zstdCompressSync } from 'node:zlib';
import { type LayerChange, layerChanges } from '../comparing/merge-layers.ts';
import type { BuiltNode, BuiltTree, LayerNode } from '../comparing/tree-builder.ts';
import { kindNumber, kindOfNumber } from '../listed-entry.ts';
import { type RecordReader, RecordWriter } from './byte-codec.ts';

/** A node in the file of a tree. */
export interface StoredNode extends LayerNode {
  /** Its number; the nodes below a directory have consecutive ones, in the order of their names. */
  readonly number: number;
  readonly parent: number;
  readonly firstChild: number;
  readonly childCount: number;
}

/** What the last bytes of the file say about it. */
export interface TreeIndex {
  readonly count: number;
  /** Where each page of nodes begins, and where the last one ends. */
  readonly nodePages: readonly number[];
  /** The same for the pages of numbers in the order of sizes. */
  readonly orderPages: readonly number[];
  readonly biggest: BuiltTree['biggest'];
  readonly privileged: BuiltTree['privileged'];
}

// The version is part of it: files of another version count as damaged.
export const treeMagic = Buffer.from('sluicet1');
export const nodesInPage = 128;
export const numbersInPage = 4096;
export const numberBytes = 4;

/** Returns the file of a tree, from which a few nodes can be read at a time. */
export function packTree({ root, count, biggest, privileged }: BuiltTree): Buffer<ArrayBuffer> {
  const nodes = inLevels(root, count);
  const parts: Buffer[] = [];
  let length = 0;
  const add = (bytes: Buffer): void => {
    parts.push(bytes);
    length += bytes.length;
  };
  const nodePages = [0];
  for (let at = 0; at < nodes.length; at += nodesInPage) {
    add(packNodes(nodes.slice(at, at + nodesInPage)));
    nodePages.push(length);
  }
  const order = inOrderOfSize(nodes);
  const orderPages = [length];
  for (let at = 0; at < order.length; at += numbersInPage) {
    const page = order.subarray(at, at + numbersInPage);
    add(zstdCompressSync(Buffer.from(page.buffer, page.byteOffset, page.byteLength)));
    orderPages.push(length);
  }
  const index: TreeIndex = { count, nodePages, orderPages, biggest, privileged };
  const packed = zstdCompressSync(Buffer.from(JSON.stringify(index)));
  const end = Buffer.alloc(4);
  end.writeUInt32LE(packed.length);
  return Buffer.concat([...parts, packed, end, treeMagic]);
}

interface PlacedNode {
  readonly node: BuiltNode;
  readonly parent: number;
  firstChild: number;
}

/** Returns the nodes level by level, so that those below one directory are next to each other. */
function inLevels(root: BuiltNode, count: number): PlacedNode[] {
  const nodes: PlacedNode[] = [{ node: root, parent: 0, firstChild: 0 }];
  for (let number = 0; number < count; number += 1) {
    const placed = nodes[number];
    if (!placed) break;
    placed.firstChild = nodes.length;
    for (const node of placed.node.children) nodes.push({ node, parent: number, firstChild: 0 });
  }
  return nodes;
}

/** Returns the numbers of all nodes, those below each directory in the order of sizes, the largest first. */
function inOrderOfSize(nodes: readonly PlacedNode[]): Uint32Array {
  const order = Uint32Array.from(nodes.keys());
  const sizeOf = (number: number) => sizeToSort(nodes[number]?.node);
  for (const { node, firstChild } of nodes) {
    if (node.children.length < 2) continue;
    const range = order.subarray(firstChild, firstChild + node.children.length);
    range.sort((one, other) => sizeOf(other) - sizeOf(one) || one - other);
  }
  return order;
}

/** Returns the bytes by which nodes are sorted: removed ones by what they remove. */
export function sizeToSort(node: Pick<LayerNode, 'bytes' | 'goneBytes'> | undefined): number {
  return node ? Math.max(node.bytes, node.goneBytes) : 0;
}

function packNodes(nodes: readonly PlacedNode[]): Buffer {
  const writer = new RecordWriter();
  const offsets = Buffer.alloc(nodes.length * 4);
  for (const [at, { node, parent, firstChild }] of nodes.entries()) {
    offsets.writeUInt32LE(writer.length, at * 4);
    writeNode(writer, node, parent, firstChild);
  }
  return zstdCompressSync(Buffer.concat([offsets, writer.take()]));
}

function writeNode(
  writer: RecordWriter,
  node: BuiltNode,
  parent: number,
  firstChild: number,
): void {
  writer.text(node.name);
  const flags = (node.isImplicit ? 1 : 0) + (node.hasCapabilities ? 2 : 0) + (node.before ? 4 : 0);
  const change = layerChanges.indexOf(node.change);
  writer.number(kindNumber(node.kind) + 8 * change + 64 * flags);
  const { added, changed, attributes, again, removed } = node.counts;
  const { mode, uid, gid, bytes, files, goneFiles, goneBytes } = node;
  for (const number of [
    ...[parent, firstChild, node.children.length, mode, uid, gid],
    ...[bytes, files, goneFiles, goneBytes, added, changed, attributes, again, removed],
  ]) {
    writer.number(number);
  }
  writer.text(node.link);
  if (!node.before) return;
  const { before } = node;
  for (const number of [before.size, before.mode, before.uid, before.gid]) writer.number(number);
}

/** Reads a node as {@link packTree} has written it. */
export function readNode(reader: RecordReader, number: number): StoredNode {
  const name = reader.text();
  const packed = reader.number();
  const next = () => reader.number();
  const hasBefore = ((packed >> 6) & 4) !== 0;
  const change: LayerChange = layerChanges[(packed >> 3) & 7] ?? 'kept';
  return {
    number,
    name,
    change,
    kind: kindOfNumber(packed & 7),
    isImplicit: ((packed >> 6) & 1) !== 0,
    hasCapabilities: ((packed >> 6) & 2) !== 0,
    parent: next(),
    firstChild: next(),
    childCount: next(),
    mode: next(),
    uid: next(),
    gid: next(),
    bytes: next(),
    files: next(),
    goneFiles: next(),
    goneBytes: next(),
    counts: {
      added: next(),
      changed: next(),
      attributes: next(),
      again: next(),
      removed: next(),
    },
    link: reader.text(),
    before: hasBefore ? { size: next(), mode: next(), uid: next(), gid: next() } : undefined,
  };
}
