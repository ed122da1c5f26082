import { ArchiveProblem } from '../archive-problem.ts';
import { GrowingBytes } from './growing-bytes.ts';
import { keyedHash } from './keyed-hash.ts';

/** Where a name is: its first byte, and its number of bytes. */
export interface NamePlace {
  readonly start: number;
  readonly length: number;
}

/** Bytes of all names together. Their rows are counted apart. */
const maxBytes = 96 * 1024 * 1024;
const mostBytesOfName = 8 * 1024;
const firstSlots = 4096;
const slash = 0x2f;
const encoder = new TextEncoder();

/**
 * Names of very many files, outside of the heap: about as many bytes as their characters, and 12 more.
 */
export class PathNames {
  readonly #bytes = new GrowingBytes(maxBytes);
  /** For each slot the number of the row with this name, plus 1. */
  #slots = new Uint32Array(firstSlots);
  #used = 0;
  readonly #wanted = Buffer.alloc(mostBytesOfName);
  readonly #placeOf: (row: number) => NamePlace;

  /** @param placeOf returns the name of a row that was entered */
  constructor(placeOf: (row: number) => NamePlace) {
    this.#placeOf = placeOf;
  }

  /** Bytes of memory that it keeps. */
  get reserved(): number {
    return this.#bytes.reserved + this.#slots.byteLength;
  }

  /** Keeps a text. Throws {@link ArchiveProblem} for one that is too long, and for more than all names may have. */
  add(text: string): NamePlace {
    const length = this.#write(text);
    if (length === undefined) {
      throw new ArchiveProblem(`has a name of more than ${mostBytesOfName} bytes`);
    }
    if (this.#bytes.size + length > maxBytes) {
      throw new ArchiveProblem(`has names of more than ${maxBytes} bytes`);
    }
    const start = this.#bytes.extend(length);
    this.#wanted.copy(this.#bytes.view, start, 0, length);
    return { start, length };
  }

  text({ start, length }: NamePlace): string {
    return this.#bytes.view.toString('utf8', start, start + length);
  }

  /** Compares paths name by name, as bytes: below, equal to or above zero, as for `sort`. */
  compare(one: NamePlace, other: NamePlace): number {
    const { view } = this.#bytes;
    const length = Math.min(one.length, other.length);
    for (let at = 0; at < length; at += 1) {
      const first = view[one.start + at] as number;
      const second = view[other.start + at] as number;
      if (first === second) continue;
      // The end of a name is less than any character.
      return (first === slash ? 0 : first) - (second === slash ? 0 : second);
    }
    return one.length - other.length;
  }

  /** Makes a row known by its name. */
  enter(row: number): void {
    if (this.#used * 2 >= this.#slots.length) this.#grow();
    this.#enter(this.#slots, row);
    this.#used += 1;
  }

  /** Returns the row that was entered with this name. */
  find(text: string): number | undefined {
    const length = this.#write(text);
    if (length === undefined) return undefined;
    const wanted = this.#wanted;
    const mask = this.#slots.length - 1;
    for (let slot = keyedHash(wanted, 0, length) & mask; ; slot = (slot + 1) & mask) {
      const row = (this.#slots[slot] as number) - 1;
      if (row < 0) return undefined;
      const { start, length: found } = this.#placeOf(row);
      if (found !== length) continue;
      const { view } = this.#bytes;
      if (view.compare(wanted, 0, length, start, start + length) === 0) return row;
    }
  }

  clear(): void {
    this.#bytes.clear();
    this.#slots.fill(0);
    this.#used = 0;
  }

  /** Returns the number of bytes; undefined for a text that is too long. */
  #write(text: string): number | undefined {
    const { read, written } = encoder.encodeInto(text, this.#wanted);
    return read === text.length ? written : undefined;
  }

  #grow(): void {
    const larger = new Uint32Array(this.#slots.length * 2);
    for (const row of this.#slots) if (row > 0) this.#enter(larger, row - 1);
    this.#slots = larger;
  }

  #enter(slots: Uint32Array, row: number): void {
    const { start, length } = this.#placeOf(row);
    const mask = slots.length - 1;
    let slot = keyedHash(this.#bytes.view, start, start + length) & mask;
    while (slots[slot] !== 0) slot = (slot + 1) & mask;
    slots[slot] = row + 1;
  }
}
