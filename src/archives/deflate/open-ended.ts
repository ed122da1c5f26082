/**
 * Returns a deflate stream to which others can be appended: its last block is no longer marked as the last one, and an empty
 * block after it ends at a whole byte. Changes the given bytes. libdeflate ends a stream with each call, and readers of
 * eStargz take a table of contents from one gzip member only. Source: RFC 1951.
 *
 * @param stream a whole stream, which is not checked
 */
export function openEnded(stream: Buffer): Buffer {
  const { lastBlock, end } = new StreamWalk(stream).toEnd();
  const at = lastBlock >> 3;
  stream[at] = (stream[at] as number) & ~(1 << (lastBlock & 7));
  // The three bits of a stored block are zeros. What is after the end of a stream in its last byte is zeros also.
  const bytes = (end + storedHeaderBits + 7) >> 3;
  const opened = Buffer.alloc(bytes + emptyBlock.length);
  stream.copy(opened, 0, 0, (end + 7) >> 3);
  emptyBlock.copy(opened, bytes);
  return opened;
}

const storedHeaderBits = 3;
/** The length of an empty stored block, and its complement. */
const emptyBlock = Buffer.from([0, 0, 0xff, 0xff]);

const endOfBlock = 256;
const lengthCodes = 29;
const maxCodeBits = 15;
const codeLengthOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** Extra bits after the code of a length: none for the first eight, then one more with each four codes. */
function lengthExtraBits(code: number): number {
  return code < 8 || code === lengthCodes - 1 ? 0 : (code >> 2) - 1;
}

function distanceExtraBits(code: number): number {
  return code < 4 ? 0 : (code >> 1) - 1;
}

/** Codes of one alphabet. */
interface Huffman {
  /** Number of codes of each length. */
  readonly counts: Uint16Array;
  /** Symbols in the order of their codes. */
  readonly symbols: Uint16Array;
}

function huffmanOf(lengths: Uint8Array): Huffman {
  const counts = new Uint16Array(maxCodeBits + 1);
  for (const length of lengths) counts[length] = (counts[length] as number) + 1;
  counts[0] = 0;
  const offsets = new Uint16Array(maxCodeBits + 2);
  for (let bits = 1; bits <= maxCodeBits; bits += 1) {
    offsets[bits + 1] = (offsets[bits] as number) + (counts[bits] as number);
  }
  const symbols = new Uint16Array(lengths.length);
  for (const [symbol, length] of lengths.entries()) {
    if (length === 0) continue;
    const at = offsets[length] as number;
    symbols[at] = symbol;
    offsets[length] = at + 1;
  }
  return { counts, symbols };
}

const fixedLengths = new Uint8Array(288).map((_, symbol) =>
  symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8,
);
const fixedCodes = [huffmanOf(fixedLengths), huffmanOf(new Uint8Array(30).fill(5))] as const;

/** Reads the blocks of a stream without decompressing them. */
class StreamWalk {
  readonly #stream: Buffer;
  /** Bits read so far. */
  #at = 0;

  constructor(stream: Buffer) {
    this.#stream = stream;
  }

  /** Returns where the last block begins and where it ends, in bits. */
  toEnd(): { readonly lastBlock: number; readonly end: number } {
    for (;;) {
      const lastBlock = this.#at;
      const isLast = this.#bits(1) === 1;
      this.#skipBlock(this.#bits(2));
      if (isLast) return { lastBlock, end: this.#at };
    }
  }

  #skipBlock(type: number): void {
    if (type === 0) {
      const start = (this.#at + 7) >> 3;
      this.#at = (start + emptyBlock.length + this.#stream.readUInt16LE(start)) * 8;
      return;
    }
    const [literals, distances] = type === 1 ? fixedCodes : this.#readCodes();
    for (;;) {
      const symbol = this.#symbol(literals);
      if (symbol === endOfBlock) return;
      if (symbol < endOfBlock) continue;
      this.#at += lengthExtraBits(symbol - endOfBlock - 1);
      const distance = this.#symbol(distances);
      this.#at += distanceExtraBits(distance);
    }
  }

  #readCodes(): readonly [Huffman, Huffman] {
    const literals = this.#bits(5) + endOfBlock + 1;
    const all = literals + this.#bits(5) + 1;
    const count = this.#bits(4) + 4;
    const lengths = new Uint8Array(codeLengthOrder.length);
    for (const symbol of codeLengthOrder.slice(0, count)) lengths[symbol] = this.#bits(3);
    const codes = huffmanOf(lengths);
    const read = new Uint8Array(all);
    for (let at = 0; at < all; ) {
      const symbol = this.#symbol(codes);
      if (symbol < 16) {
        read[at] = symbol;
        at += 1;
        continue;
      }
      const value = symbol === 16 ? (read[at - 1] as number) : 0;
      const times =
        symbol === 16 ? 3 + this.#bits(2) : symbol === 17 ? 3 + this.#bits(3) : 11 + this.#bits(7);
      read.fill(value, at, at + times);
      at += times;
    }
    return [huffmanOf(read.subarray(0, literals)), huffmanOf(read.subarray(literals))];
  }

  #symbol({ counts, symbols }: Huffman): number {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length <= maxCodeBits; length += 1) {
      code |= this.#bits(1);
      const count = counts[length] as number;
      if (code - first < count) return symbols[index + code - first] as number;
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw damaged();
  }

  #bits(count: number): number {
    let value = 0;
    for (let bit = 0; bit < count; bit += 1) {
      const byte = this.#stream[this.#at >> 3];
      if (byte === undefined) throw damaged();
      value |= ((byte >> (this.#at & 7)) & 1) << bit;
      this.#at += 1;
    }
    return value;
  }
}

function damaged(): Error {
  return new Error('the deflate stream of a piece is damaged');
}
