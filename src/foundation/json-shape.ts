/** How much structure a JSON text may have. */
export interface JsonShape {
  /** Values on all levels together: texts, numbers, lists, objects and so on. */
  readonly maxValues: number;
  /** Levels of nested lists and objects. */
  readonly maxDepth: number;
  /** Escaped characters in its texts (`\n`), which take longer than others. */
  readonly maxEscapes: number;
}

/** A JSON text with more structure than is allowed. */
export class JsonShapeError extends Error {
  override readonly name = 'JsonShapeError';
}

const quote = 0x22;
const comma = 0x2c;
const openList = 0x5b;
const backslash = 0x5c;
const closeList = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

/**
 * Counts the structure of a JSON text while its bytes arrive, before it is parsed: parsing a
 * million small values takes seconds, parsing one text of 14 MiB takes milliseconds. The parser
 * rejects a text that is not JSON.
 */
export class JsonShapeCheck {
  readonly #shape: JsonShape;
  #values = 1;
  #depth = 0;
  #escapes = 0;
  #inText = false;
  #isEscaped = false;

  constructor(shape: JsonShape) {
    this.#shape = shape;
  }

  /** Takes the next bytes. Throws {@link JsonShapeError} as soon as the text exceeds a limit. */
  add(bytes: Uint8Array): void {
    const { length } = bytes;
    for (let at = 0; at < length; at += 1) {
      if (this.#inText) {
        at = this.#endOfText(bytes, at);
        continue;
      }
      const byte = bytes[at];
      if (byte === quote) this.#inText = true;
      else if (byte === comma) this.#count();
      else if (byte === openList || byte === openObject) this.#open();
      else if (byte === closeList || byte === closeObject) this.#depth -= 1;
    }
  }

  /** Returns the end of the current text, or the end of the bytes. */
  #endOfText(bytes: Uint8Array, start: number): number {
    let at = start;
    if (this.#isEscaped) {
      this.#isEscaped = false;
      at += 1;
    }
    for (; at < bytes.length; at += 1) {
      if (bytes[at] === backslash) {
        this.#escapes += 1;
        at += 1;
      } else if (bytes[at] === quote) {
        this.#inText = false;
        this.#checkEscapes();
        return at;
      }
    }
    this.#isEscaped = at > bytes.length;
    this.#checkEscapes();
    return at;
  }

  #checkEscapes(): void {
    if (this.#escapes <= this.#shape.maxEscapes) return;
    throw new JsonShapeError(`has more than ${this.#shape.maxEscapes} escaped characters`);
  }

  #open(): void {
    this.#depth += 1;
    if (this.#depth > this.#shape.maxDepth) {
      throw new JsonShapeError(
        `has lists and objects nested more than ${this.#shape.maxDepth} deep`,
      );
    }
    this.#count();
  }

  #count(): void {
    this.#values += 1;
    if (this.#values > this.#shape.maxValues) {
      throw new JsonShapeError(`has more than ${this.#shape.maxValues} values`);
    }
  }
}

/**
 * Parses a JSON text from outside. Throws {@link JsonShapeError} for too much structure, and a
 * `SyntaxError` for a text that is not JSON.
 */
export function parseShaped(bytes: Buffer, shape: JsonShape, reviver?: Reviver): unknown {
  new JsonShapeCheck(shape).add(bytes);
  return JSON.parse(bytes.toString('utf8'), reviver);
}

type Reviver = Parameters<typeof JSON.parse>[1];
