import { trim } from '../../foundation/text.ts';
import type { ProxyRoute } from './proxy-route.ts';

/** Status line and fields of a response. Names in lower case; repeated fields joined by `, `. */
export interface ResponseHead {
  /** The digit after `HTTP/1.` */
  readonly minor: 0 | 1;
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** Bytes; a longer head is an error. */
const headLimit = 64 * 1024;

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a field value excludes exactly the control characters (RFC 9110, 5.5)
const control = /[\u0000-\u0008\u000a-\u001f\u007f]/;
const statusLine = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: .*)?$/;
const written = new Set(['host', 'connection', 'content-length', 'transfer-encoding', 'expect']);

/**
 * Returns the head of a GET, or of a PUT of a number of bytes (RFC 9112, 3). Requests the bytes unencoded (`identity`) unless the caller specifies
 * otherwise. Throws {@link WireError} `protocol` for a name or value that could begin another line, and for fields
 * that belong to the connection.
 */
export function requestHead(
  url: URL,
  headers: Readonly<Record<string, string>>,
  route?: ProxyRoute,
  uploadBytes?: number,
): string {
  // A forwarding proxy receives the whole address (RFC 9112, 3.2.2), without user information.
  const origin = route?.kind === 'forward' ? url.origin : '';
  const method = uploadBytes === undefined ? 'GET' : 'PUT';
  const lines = [`${method} ${origin}${url.pathname}${url.search} HTTP/1.1`, `host: ${url.host}`];
  if (uploadBytes !== undefined) lines.push(`content-length: ${uploadBytes}`);
  if (route?.kind === 'forward' && route.proxy.authorization !== undefined) {
    lines.push(`proxy-authorization: ${route.proxy.authorization}`);
  }
  let encoding = false;
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (!token.test(name) || written.has(lower)) {
      throw new WireError('protocol', `the request field '${name.slice(0, 80)}' cannot be sent`);
    }
    // The message leaves the value out: it may be a credential.
    if (control.test(value) || /[\u0100-\uffff]/.test(value)) {
      throw new WireError(
        'protocol',
        `the request field '${name}' holds a character that cannot be sent`,
      );
    }
    if (lower === 'accept-encoding') encoding = true;
    lines.push(`${name}: ${value}`);
  }
  if (!encoding) lines.push('accept-encoding: identity');
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/**
 * Collects a head that arrives in pieces of any size, at most {@link headLimit} bytes. Stricter than RFC 9112, 2.2: a
 * line feed without its carriage return is an error, never a line end.
 */
export class HeadReader {
  #bytes = Buffer.alloc(0);
  #used = 0;
  #last = 0;
  /** Number of characters of CR LF CR LF at the end of the bytes so far. */
  #matched = 0;

  /** True before the first byte. */
  get untouched(): boolean {
    return this.#used === 0;
  }

  /** Takes bytes up to the end of the head. Returns how many it took, and the head once it is complete. */
  push(bytes: Uint8Array): { taken: number; head?: ResponseHead } {
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte === 10 && this.#last !== 13)
        throw brokenHead('a line feed without a carriage return');
      this.#matched =
        byte === (this.#matched % 2 === 0 ? 13 : 10) ? this.#matched + 1 : byte === 13 ? 1 : 0;
      this.#last = byte;
      if (this.#matched < 4) continue;
      this.#keep(bytes.subarray(0, at + 1));
      const text = this.#bytes.toString('latin1', 0, this.#used - 4);
      this.#used = this.#matched = this.#last = 0;
      return { taken: at + 1, head: parseHead(text) };
    }
    this.#keep(bytes);
    return { taken: bytes.length };
  }

  #keep(bytes: Uint8Array): void {
    const used = this.#used + bytes.length;
    if (used > headLimit) throw brokenHead(`a head of more than ${headLimit} bytes`);
    if (used > this.#bytes.length) {
      const grown = Buffer.alloc(Math.min(headLimit, Math.max(1024, used * 2)));
      grown.set(this.#bytes.subarray(0, this.#used));
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.#used);
    this.#used = used;
  }
}

/**
 * Parses the text of a head (without the final empty line). Throws {@link WireError} `protocol`; rejects folded lines
 * (RFC 9112, 5.2) and blanks before the colon (5.1) instead of fixing them.
 */
function parseHead(text: string): ResponseHead {
  const [first = '', ...lines] = text.split('\r\n');
  const status = statusLine.exec(first);
  if (status === null || control.test(first)) throw brokenHead('a malformed status line');
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(colon, 0)).toLowerCase();
    if (!token.test(name) || control.test(line)) throw brokenHead('a malformed header field');
    const value = trim(line.slice(colon + 1), isBlank);
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return { minor: status[1] === '1' ? 1 : 0, status: Number(status[2]), headers };
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\t';
}

/** How a body ends (RFC 9112, 6.3). */
type Framing =
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'close' };

/**
 * Returns how the body of a GET's final response ends (RFC 9112, 6.3). Throws {@link WireError} `protocol` where two
 * readers could see different ends: both length and coding, unequal lengths, codings other than `chunked`.
 */
export function framingOf(head: ResponseHead): Framing {
  if (head.status === 204 || head.status === 304) return { kind: 'length', bytes: 0 };
  const coding = head.headers.get('transfer-encoding');
  const length = head.headers.get('content-length');
  if (coding !== undefined) {
    if (length !== undefined) throw brokenHead('both Content-Length and Transfer-Encoding');
    if (head.minor === 0) throw brokenHead('Transfer-Encoding in HTTP/1.0');
    if (coding.toLowerCase() !== 'chunked') throw brokenHead('an unknown Transfer-Encoding');
    return { kind: 'chunked' };
  }
  return length === undefined ? { kind: 'close' } : { kind: 'length', bytes: lengthOf(length) };
}

function lengthOf(field: string): number {
  const values = new Set(field.split(',').map(value => value.trim()));
  const [value = ''] = values;
  if (values.size !== 1 || !/^[0-9]{1,15}$/.test(value))
    throw brokenHead('a malformed Content-Length');
  return Number(value);
}

/** True when the connection may serve another request (RFC 9112, 9.3). */
export function keepsAlive(head: ResponseHead): boolean {
  const options = (head.headers.get('connection') ?? '')
    .toLowerCase()
    .split(',')
    .map(option => option.trim());
  return head.minor === 1 ? !options.includes('close') : options.includes('keep-alive');
}

function brokenHead(what: string): WireError {
  return new WireError('protocol', `the upstream sent ${what}`);
}

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
    if (this.#line.length + end - from > lineLimit) throw brokenBody('line that is too long');
    for (let at = from; at < end; at += 1) this.#line += String.fromCharCode(bytes[at] ?? 0);
    if (feed >= 0) {
      if (!this.#line.endsWith('\r\n')) throw brokenBody('line without a carriage return');
      const line = this.#line.slice(0, -2);
      this.#line = '';
      this.#take(line);
    }
    return end - from;
  }

  #take(line: string): void {
    if (this.#state === 'data-end') {
      if (line !== '') throw brokenBody('chunk longer than its size');
      this.#state = 'size';
    } else if (this.#state === 'size') {
      // Blanks before an extension are BWS.
      const size = /^([0-9a-fA-F]{1,12})(?:[ \t]*;[^\r]*)?$/.exec(line)?.[1];
      if (size === undefined) throw brokenBody('size');
      this.#begin(Number.parseInt(size, 16));
    } else {
      this.#trailer += line.length + 2;
      if (this.#trailer > trailerLimit) throw brokenBody('trailer that is too long');
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

function brokenBody(what: string): WireError {
  return new WireError('protocol', `the upstream sent a malformed chunked body: ${what}`);
}

/** The failed phase of an exchange, as far as the caller's next step depends on it. */
type WireErrorCode =
  | 'connect'
  | 'timeout-connect'
  | 'timeout-headers'
  | 'timeout-idle'
  | 'reset'
  | 'short'
  | 'protocol'
  | 'aborted'
  | 'tls';

/**
 * A failed exchange with an upstream. `connect` and `tls`: no connection was established; `reset`: the connection
 * broke; `short`: it was closed cleanly before the end of the body; `protocol`: the upstream (or the caller's request)
 * violates the grammar of RFC 9112; `aborted`: by signal or destroy.
 */
export class WireError extends Error {
  readonly code: WireErrorCode;

  constructor(code: WireErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'WireError';
    this.code = code;
  }
}
