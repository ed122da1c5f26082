import type { Framing } from './head.ts';
import { WireError } from './wire-error.ts';

/** Extracts a body from the bytes of a connection. */
export interface BodyDecoder {
  /** True when the whole body has arrived. */
  readonly done: boolean;
  /** True when the end of the connection is the end of the body. */
  readonly endsAtClose: boolean;
  /**
   * Passes the body's bytes to `emit`, as views of the same memory. Returns how many bytes belong to this response;
   * any others came after its end. Throws {@link WireError} `protocol`.
   */
  feed(bytes: Uint8Array, emit: (piece: Uint8Array) => void): number;
}

/** Returns the decoder for a framing (RFC 9112, 6.3). */
export function bodyDecoder(framing: Framing): BodyDecoder {
  if (framing.kind === 'length') return new LengthBody(framing.bytes);
  return framing.kind === 'chunked' ? new ChunkedBody() : new CloseBody();
}

class LengthBody implements BodyDecoder {
  readonly endsAtClose = false;
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  get done(): boolean {
    return this.#left === 0;
  }

  feed(bytes: Uint8Array, emit: (piece: Uint8Array) => void): number {
    const count = Math.min(bytes.length, this.#left);
    this.#left -= count;
    if (count > 0) emit(count === bytes.length ? bytes : bytes.subarray(0, count));
    return count;
  }
}

class CloseBody implements BodyDecoder {
  readonly endsAtClose = true;
  readonly done = false;

  feed(bytes: Uint8Array, emit: (piece: Uint8Array) => void): number {
    emit(bytes);
    return bytes.length;
  }
}

/** Maximum bytes of one size line with its extensions, and of all trailer fields together. */
const lineLimit = 4 * 1024;
const trailerLimit = 64 * 1024;
/** Maximum digits of a size: so many keep it an exact number. */
const sizeDigits = 12;

/** Chunked transfer coding (RFC 9112, 7.1). Extensions and trailer fields are read and dropped. */
class ChunkedBody implements BodyDecoder {
  readonly endsAtClose = false;
  #state: 'size' | 'data' | 'data-end' | 'trailer' | 'done' = 'size';
  /** Remaining bytes of the current chunk. */
  #left = 0;
  #line = '';
  #trailer = 0;

  get done(): boolean {
    return this.#state === 'done';
  }

  feed(bytes: Uint8Array, emit: (piece: Uint8Array) => void): number {
    let at = 0;
    while (at < bytes.length && this.#state !== 'done') {
      if (this.#state === 'data') {
        const count = Math.min(this.#left, bytes.length - at);
        emit(bytes.subarray(at, at + count));
        at += count;
        this.#left -= count;
        if (this.#left === 0) this.#state = 'data-end';
      } else {
        at += this.#feedUsual(bytes, at) || this.#feedLine(bytes, at);
      }
    }
    return at;
  }

  /**
   * Reads a complete line between chunks without making a text of it: tiny chunks have two such lines for each byte.
   * Returns its length, or 0 for any other line.
   */
  #feedUsual(bytes: Uint8Array, from: number): number {
    if (this.#line !== '' || this.#state === 'trailer') return 0;
    let size = 0;
    let at = from;
    if (this.#state === 'size') {
      for (; at < from + sizeDigits; at += 1) {
        const digit = hexDigit(bytes[at]);
        if (digit < 0) break;
        size = size * 16 + digit;
      }
      if (at === from) return 0;
    }
    if (bytes[at] !== 13 || bytes[at + 1] !== 10) return 0;
    if (this.#state === 'size') this.#begin(size);
    else this.#state = 'size';
    return at + 2 - from;
  }

  #begin(size: number): void {
    this.#left = size;
    this.#state = size === 0 ? 'trailer' : 'data';
  }

  #feedLine(bytes: Uint8Array, from: number): number {
    const feed = bytes.indexOf(10, from);
    const end = feed < 0 ? bytes.length : feed + 1;
    if (this.#line.length + end - from > lineLimit) throw broken('line that is too long');
    for (let at = from; at < end; at += 1) this.#line += String.fromCharCode(bytes[at] ?? 0);
    if (feed >= 0) {
      if (!this.#line.endsWith('\r\n')) throw broken('line without a carriage return');
      const line = this.#line.slice(0, -2);
      this.#line = '';
      this.#take(line);
    }
    return end - from;
  }

  #take(line: string): void {
    if (this.#state === 'data-end') {
      if (line !== '') throw broken('chunk longer than its size');
      this.#state = 'size';
    } else if (this.#state === 'size') {
      // Blanks before an extension are BWS.
      const size = /^([0-9a-fA-F]{1,12})(?:[ \t]*;[^\r]*)?$/.exec(line)?.[1];
      if (size === undefined) throw broken('size');
      this.#begin(Number.parseInt(size, 16));
    } else {
      this.#trailer += line.length + 2;
      if (this.#trailer > trailerLimit) throw broken('trailer that is too long');
      if (line === '') this.#state = 'done';
    }
  }
}

/** Returns the value of a hexadecimal digit; -1 for any other byte. */
function hexDigit(byte = 0): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}

function broken(what: string): WireError {
  return new WireError('protocol', `the upstream sent a malformed chunked body: ${what}`);
}
