import { hash } from 'node:crypto';
import type { BlockThreads, MadeBlock, Slot } from './block-threads.ts';
import type { SquashfsOutput } from './squashfs-output.ts';
import {
  blockBytes,
  noFragment,
  storedBit,
  type WrittenContent,
  type WrittenInode,
} from './written-inode.ts';

/** A block with the content of several files that are shorter than a block. */
export interface Fragment {
  start: number;
  /** Its stored size, with {@link storedBit}. */
  word: number;
}

/** The file that is written now. */
interface OpenFile {
  readonly inode: WrittenInode;
  readonly size: number;
  /** Bytes to come. */
  rest: number;
  /** True if another file may have the same content. */
  readonly isRepeated: boolean;
  readonly content: WrittenContent & { readonly blocks: number[] };
  /** Digests of its blocks. */
  readonly digests: string[];
}

const noBlocks: readonly number[] = [];

/**
 * Writes the content of files, one after the other. Blocks are compressed on threads, and written in their order. Files
 * with the same content are stored once. All methods throw the first failure, also of an earlier block.
 */
export class ContentWriter {
  readonly fragments: Fragment[] = [];
  readonly #threads: BlockThreads;
  readonly #output: SquashfsOutput;
  /** Short files by their digest, apart for each first byte: a large map holds the event loop when it grows. */
  readonly #shortFiles = Array.from({ length: 256 }, () => new Map<string, WrittenContent>());
  readonly #longFiles = new Map<string, WrittenContent>();
  #file: OpenFile | undefined;
  #block: Slot | undefined;
  #blockFill = 0;
  #fragment: Slot | undefined;
  #fragmentFill = 0;
  #position: number;
  #writing: Promise<void> = Promise.resolve();

  /** @param position where the content begins in the squashfs */
  constructor(threads: BlockThreads, output: SquashfsOutput, position: number) {
    this.#threads = threads;
    this.#output = output;
    this.#position = position;
  }

  /**
   * Begins a file, whose content follows.
   *
   * @param size bytes of the content, more than 0
   * @param isRepeated true if another file may have the same content
   */
  async begin(inode: WrittenInode, size: number, isRepeated: boolean): Promise<void> {
    const isShort = size < blockBytes;
    if (isShort && this.#fragmentFill + size > blockBytes) this.#endFragment();
    if (isShort) this.#fragment ??= await this.#threads.take();
    const content = { start: 0, blocks: [], fragment: noFragment, offset: 0, holes: 0 };
    inode.content = content;
    this.#file = { inode, size, rest: size, isRepeated, content, digests: [] };
  }

  /** Takes the next bytes of the file. Ignores what follows its end. */
  async add(bytes: Buffer): Promise<void> {
    const file = this.#file;
    if (!file) return;
    for (let at = 0; at < bytes.length && file.rest > 0; ) {
      const isShort = file.size < blockBytes;
      this.#block ??= isShort ? undefined : await this.#threads.take();
      const target = isShort ? this.#fragment : this.#block;
      const fill = isShort ? this.#fragmentFill + file.size - file.rest : this.#blockFill;
      const size = Math.min(file.rest, bytes.length - at, blockBytes - fill);
      bytes.copy(target?.bytes as Buffer, fill, at, at + size);
      at += size;
      file.rest -= size;
      if (isShort) continue;
      this.#blockFill += size;
      if (this.#blockFill === blockBytes || file.rest === 0) this.#endBlock(file);
    }
    if (file.rest > 0) return;
    if (file.size < blockBytes) this.#endShort(file);
    this.#file = undefined;
  }

  /** Waits until all content is written. Returns the position after it. */
  async finish(): Promise<number> {
    this.#endFragment();
    await this.#writing;
    return this.#position;
  }

  #endShort({ inode, size, isRepeated }: OpenFile): void {
    const start = this.#fragmentFill;
    const content: WrittenContent = {
      start: 0,
      blocks: noBlocks,
      fragment: this.fragments.length,
      offset: start,
      holes: 0,
    };
    inode.content = content;
    if (isRepeated) {
      const bytes = this.#fragment?.bytes.subarray(start, start + size) as Buffer;
      const digest = hash('sha256', bytes, 'binary');
      const files = this.#shortFiles[digest.charCodeAt(0)];
      const known = files?.get(digest);
      if (known) {
        inode.content = known;
        return;
      }
      files?.set(digest, content);
    }
    this.#fragmentFill += size;
  }

  #endFragment(): void {
    const slot = this.#fragment;
    if (!slot) return;
    const size = this.#fragmentFill;
    this.#fragment = undefined;
    this.#fragmentFill = 0;
    // All its files may be stored elsewhere.
    if (size === 0) return;
    const fragment = { start: 0, word: 0 };
    this.fragments.push(fragment);
    const options = { mayBeHole: false, isHashed: false };
    this.#write(slot, this.#threads.compress(slot, size, options), async block => {
      fragment.start = this.#position;
      fragment.word = await this.#store(block);
    });
  }

  #endBlock(file: OpenFile): void {
    const slot = this.#block as Slot;
    const size = this.#blockFill;
    const isLast = file.rest === 0;
    this.#block = undefined;
    this.#blockFill = 0;
    const { content, digests, isRepeated } = file;
    const options = { mayBeHole: true, isHashed: isRepeated };
    this.#write(slot, this.#threads.compress(slot, size, options), async block => {
      if (content.blocks.length === 0) content.start = this.#position;
      content.blocks.push(await this.#store(block));
      if (!block.bytes) content.holes += size;
      digests.push(block.digest);
      if (isLast && isRepeated) this.#mergeLong(file);
    });
  }

  /** Gives a file the content of an earlier one, if that is the same. */
  #mergeLong({ content, size, digests }: OpenFile): void {
    const blocks = Buffer.from(digests.join(''), 'latin1');
    const digest = `${size} ${hash('sha256', blocks, 'binary')}`;
    const known = this.#longFiles.get(digest);
    if (!known) {
      this.#longFiles.set(digest, content);
      return;
    }
    // What follows takes the place of its blocks.
    this.#position = content.start;
    Object.assign(content, known);
  }

  /** Does `write` with a block when the earlier blocks are written. */
  #write(slot: Slot, made: Promise<MadeBlock>, write: (block: MadeBlock) => Promise<void>): void {
    const fail = (reason: unknown) => this.#threads.fail(reason);
    made.catch(fail);
    this.#writing = this.#writing.then(async () => {
      await write(await made);
      this.#threads.give(slot);
    });
    this.#writing.catch(fail);
  }

  /** Writes a block, and returns its stored size. */
  async #store({ bytes, isPacked }: MadeBlock): Promise<number> {
    if (!bytes) return 0;
    await this.#output.write(bytes, this.#position);
    this.#position += bytes.length;
    return isPacked ? bytes.length : bytes.length + storedBit;
  }
}
