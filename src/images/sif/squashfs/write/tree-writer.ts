import { pauseTurn, sortInTurns } from '../../../../foundation/pause-turn.ts';
import type { ImageTree, Inode, TreeNode } from '../../layers/tree.ts';
import { AttributeTable } from './attribute-table.ts';
import type { CompressBlock } from './block-compressor.ts';
import { DirectoryListWriter } from './directory-list.ts';
import {
  deviceRecord,
  directoryRecord,
  fifoRecord,
  fileRecord,
  type InodeHead,
  inodeTypes,
  noAttributes,
  symlinkRecord,
} from './inode-record.ts';
import { MetadataWriter, metadataBytes } from './metadata-writer.ts';
import type { Appender } from './squashfs-output.ts';
import type { WrittenInodes } from './written-inodes.ts';

/** A directory whose inode is not written yet. */
interface OpenDirectory {
  readonly node: TreeNode;
  readonly parent: number;
  /** In the order of their names. */
  readonly children: readonly TreeNode[];
  /** The most bytes that its list may have. */
  readonly mostBytes: number;
  /** The next child to look at for directories. */
  next: number;
  directories: number;
}

const nodesPerTurn = 256;
const rootNumber = 1;
const dots = 2;
/** Bytes of a name's record, and of the head of its run if it is alone in it. */
const mostNameHead = 20;

/** Writes the inodes of a tree to the file, and keeps the lists of its directories in memory until they are written. */
export class TreeWriter {
  readonly attributes: AttributeTable;
  readonly lists: MetadataWriter;
  readonly #written: WrittenInodes;
  readonly #inodes: MetadataWriter;
  readonly #file: Appender;
  readonly #signal: AbortSignal;
  #count = 0;

  /**
   * @param file where the inodes follow
   */
  constructor(
    written: WrittenInodes,
    compress: CompressBlock,
    file: Appender,
    signal: AbortSignal,
  ) {
    this.#written = written;
    this.#signal = signal;
    this.attributes = new AttributeTable(compress);
    this.lists = new MetadataWriter(compress);
    this.#inodes = new MetadataWriter(compress);
    this.#file = file;
  }

  /** Place of the inode of the root directory. */
  get rootPlace(): number {
    return this.#written.placeOf(rootNumber);
  }

  /** Number of inodes. */
  get count(): number {
    return this.#count;
  }

  /**
   * Writes all inodes, each directory after what is in it. Their content must be written. Throws when the signal is
   * aborted.
   */
  async write({ root }: ImageTree): Promise<void> {
    this.#number(root.inode);
    const open = [await this.#open(root, rootNumber)];
    for (let at = open.at(-1); at; at = open.at(-1)) {
      const child = at.children[at.next];
      at.next += 1;
      if (child?.children) {
        at.directories += 1;
        open.push(await this.#open(child, this.#number(at.node.inode)));
      } else if (child === undefined) {
        open.pop();
        await this.#close(at);
      } else if (at.next % nodesPerTurn === 0) await pauseTurn();
    }
    this.#inodes.end();
    await this.#flush();
    this.lists.end();
  }

  /** Returns the number of an inode. The first call gives it one. */
  #number(inode: Inode): number {
    const { numbers } = this.#written;
    const index = this.#written.indexOf(inode);
    const known = numbers[index] as number;
    if (known > 0) return known;
    this.#count += 1;
    numbers[index] = this.#count;
    return this.#count;
  }

  /** Numbers the children of a directory: names that are listed together have numbers close to each other. */
  async #open(node: TreeNode, parent: number): Promise<OpenDirectory> {
    const list: TreeNode[] = [];
    let mostBytes = 0;
    for (const child of node.children?.values() ?? []) {
      list.push(child);
      mostBytes += child.name.length + mostNameHead;
      if (list.length % nodesPerTurn === 0) await pauseTurn();
    }
    const children = await sortInTurns(list, byName);
    for (const [index, { inode }] of children.entries()) {
      this.#number(inode);
      if (index % nodesPerTurn === 0) await pauseTurn();
    }
    return { node, parent, children, mostBytes, next: 0, directories: 0 };
  }

  async #close({ node, parent, children, mostBytes, directories }: OpenDirectory): Promise<void> {
    for (const [index, { inode }] of children.entries()) {
      const { block } = this.#inodes;
      if (this.#written.placeOf(this.#number(inode)) < 0) {
        const links = this.#written.links[this.#written.indexOf(inode)] as number;
        await this.#add(inode, links, head => this.#record(head, inode));
      }
      if (index % nodesPerTurn === 0 || this.#inodes.block !== block) await this.#turn();
    }
    const list = new DirectoryListWriter(this.lists, mostBytes);
    for (const [index, { name, inode }] of children.entries()) {
      const number = this.#number(inode);
      const place = this.#written.placeOf(number);
      list.add({ name, type: inodeTypes[inode.kind], number, place });
      if (index % nodesPerTurn === 0) await this.#turn();
    }
    const listed = list.end();
    await this.#add(node.inode, dots + directories, head => directoryRecord(head, listed, parent));
    await this.#turn();
  }

  async #add(inode: Inode, links: number, recordOf: (head: InodeHead) => Buffer): Promise<void> {
    const { place } = this.#inodes;
    const number = this.#number(inode);
    this.#written.setPlace(number, place);
    const attributes = inode.attributes?.length
      ? await this.attributes.indexOf(inode.attributes)
      : noAttributes;
    const record = recordOf({ inode, number, links, attributes });
    if (record.length < metadataBytes) this.#inodes.add(record);
    else await this.#inodes.addInTurns(record);
  }

  /** Returns the record of an inode that is not a directory. */
  #record(head: InodeHead, inode: Inode): Buffer {
    switch (inode.kind) {
      case 'symlink':
        return symlinkRecord(head, inode.target);
      case 'fifo':
        return fifoRecord(head);
      case 'character-device':
      case 'block-device':
        return deviceRecord(head, inode.device ?? { major: 0, minor: 0 });
      default: {
        const index = this.#written.indexOf(inode);
        return fileRecord(head, inode.size, {
          long: this.#written.long.get(index),
          fragment: this.#written.fragmentOf(index),
          offset: this.#written.offsets[index] as number,
        });
      }
    }
  }

  async #turn(): Promise<void> {
    this.#signal.throwIfAborted();
    await this.#flush();
    await pauseTurn();
  }

  async #flush(): Promise<void> {
    await this.#file.add(this.#inodes.takeBlocks());
  }
}

function byName({ name: one }: TreeNode, { name: other }: TreeNode): number {
  return one < other ? -1 : 1;
}
