import { hash } from 'node:crypto';
import type { BlockThreads, MadeBlock, Slot } from './block-threads.ts';
import { DigestTable } from './digest-table.ts';
import type { SquashfsOutput } from './squashfs-output.ts';
import { blockBytes, type LongContent, storedBit, type WrittenInodes } from './written-inodes.ts';

/** A block with the content of several files that are shorter than a block. */
export interface Fragment {
  start: number;
  /** Its stored size, with {@link storedBit}. */
  word: number;
}

/** The file that is written now. */
interface OpenFile {
  /** Index of its inode. */
  readonly index: number;
  readonly size: number;
  /** Bytes to come. */
  rest: number;
  /** True if another file may have the same content. */
  readonly isRepeated: boolean;
  /** Undefined for a file that is shorter than a block. */
  readonly long: OpenLongFile | undefined;
}

interface OpenLongFile {
  readonly content: LongContent & { readonly blocks: number[] };
  /** Digests of its blocks. */
  readonly digests: string[];
}

/**
 * Writes the content of files, one after the other. Blocks are compressed on threads, and written in their order. Files
 * with the same content are stored once. All methods throw the first failure, also of an earlier block.
 */
export class ContentWriter {
  readonly fragments: Fragment[] = [];
  readonly #threads: BlockThreads;
  readonly #output: SquashfsOutput;
  readonly #inodes: WrittenInodes;
  readonly #shortFiles: DigestTable;
  readonly #longFiles = new Map<string, LongContent>();
  #file: OpenFile | undefined;
  #block: Slot | undefined;
  #blockFill = 0;
  #fragment: Slot | undefined;
  #fragmentFill = 0;
  #position: number;
  #writing: Promise<void> = Promise.resolve();

  /**
   * @param position where the content begins in the squashfs
   * @param mostRepeated number of files that may have the same content as another one
   */
  constructor(
    inodes: WrittenInodes,
    threads: BlockThreads,
    output: SquashfsOutput,
    position: number,
    mostRepeated: number,
  ) {
    this.#inodes = inodes;
    this.#shortFiles = new DigestTable(mostRepeated);
    this.#threads = threads;
    this.#output = output;
    this.#position = position;
  }

  /**
   * Begins a file, whose content follows.
   *
   * @param index of its inode
   * @param size bytes of the content, more than 0
   * @param isRepeated true if another file may have the same content
   */
  async begin(index: number, size: number, isRepeated: boolean): Promise<void> {
    if (size >= blockBytes) {
      const content = { start: 0, blocks: [], holes: 0 };
      this.#inodes.long.set(index, content);
      this.#file = { index, size, rest: size, isRepeated, long: { content, digests: [] } };
      return;
    }
    if (this.#fragmentFill + size > blockBytes) this.#endFragment();
    this.#fragment ??= await this.#threads.take();
    this.#file = { index, size, rest: size, isRepeated, long: undefined };
  }

  /** Takes the next bytes of the file. Ignores what follows its end. */
  async add(bytes: Buffer): Promise<void> {
    const file = this.#file;
    if (!file) return;
    for (let at = 0; at < bytes.length && file.rest > 0; ) {
      const isShort = file.long === undefined;
      this.#block ??= isShort ? undefined : await this.#threads.take();
      const target = isShort ? this.#fragment : this.#block;
      const fill = isShort ? this.#fragmentFill + file.size - file.rest : this.#blockFill;
      const size = Math.min(file.rest, bytes.length - at, blockBytes - fill);
      bytes.copy(target?.bytes as Buffer, fill, at, at + size);
      at += size;
      file.rest -= size;
      if (!file.long) continue;
      this.#blockFill += size;
      if (this.#blockFill === blockBytes || file.rest === 0) this.#endBlock(file, file.long);
    }
    if (file.rest > 0) return;
    if (!file.long) this.#endShort(file);
    this.#file = undefined;
  }

  /** Waits until all content is written. Returns the position after it. */
  async finish(): Promise<number> {
    this.#endFragment();
    await this.#writing;
    return this.#position;
  }

  #endShort({ index, size, isRepeated }: OpenFile): void {
    const inodes = this.#inodes;
    const start = this.#fragmentFill;
    if (isRepeated) {
      const bytes = this.#fragment?.bytes.subarray(start, start + size) as Buffer;
      const known = this.#shortFiles.add(hash('sha256', bytes, 'binary'), index);
      if (known !== index) {
        inodes.setFragment(index, inodes.fragmentOf(known), inodes.offsets[known] as number);
        return;
      }
    }
    inodes.setFragment(index, this.fragments.length, start);
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

  #endBlock({ size: fileSize, rest, isRepeated }: OpenFile, long: OpenLongFile): void {
    const slot = this.#block as Slot;
    const size = this.#blockFill;
    const isLast = rest === 0;
    this.#block = undefined;
    this.#blockFill = 0;
    const { content, digests } = long;
    const options = { mayBeHole: true, isHashed: isRepeated };
    this.#write(slot, this.#threads.compress(slot, size, options), async block => {
      if (content.blocks.length === 0) content.start = this.#position;
      content.blocks.push(await this.#store(block));
      if (!block.bytes) content.holes += size;
      digests.push(block.digest);
      if (isLast && isRepeated) this.#mergeLong(long, fileSize);
    });
  }

  /** Gives a file the content of an earlier one, if that is the same. */
  #mergeLong({ content, digests }: OpenLongFile, size: number): void {
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
