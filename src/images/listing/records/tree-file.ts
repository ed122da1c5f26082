import { zstdCompressSync } from 'node:zlib';
import type { BuiltNode, BuiltTree, LayerNode } from '../comparing/tree-builder.ts';
import { DamagedListing, readJson } from './listed-entry.ts';

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
export const treeMagic = Buffer.from('sluicet2');
export const nodesInPage = 64;
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

/** Returns a page: where each node begins, and the nodes as JSON. */
function packNodes(nodes: readonly PlacedNode[]): Buffer {
  const offsets = Buffer.alloc(nodes.length * numberBytes);
  const texts: Buffer[] = [];
  let length = offsets.length;
  for (const [at, { node, parent, firstChild }] of nodes.entries()) {
    const { children, ...own } = node;
    const stored = { ...own, parent, firstChild, childCount: children.length };
    const text = Buffer.from(JSON.stringify(stored));
    offsets.writeUInt32LE(length, at * numberBytes);
    texts.push(text);
    length += text.length;
  }
  return zstdCompressSync(Buffer.concat([offsets, ...texts]));
}

/** Reads a node of a page as {@link packTree} has written it. */
export function readNode(page: Buffer, first: number, number: number, count: number): StoredNode {
  const nodes = Math.min(nodesInPage, count - first);
  const at = number - first;
  if (page.length < nodes * numberBytes) throw new DamagedListing();
  const start = page.readUInt32LE(at * numberBytes);
  const end = at + 1 < nodes ? page.readUInt32LE((at + 1) * numberBytes) : page.length;
  return { ...readJson<StoredNode>(page.toString('utf8', start, end)), number };
}
