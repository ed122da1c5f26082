/** Receives the parts of repository data as they are read. */
export interface RecordReceiver {
  info(info: unknown): void;
  record(section: RecordSection, fileName: string, record: unknown): void;
  /** Receives the file name of a package that the channel has withdrawn. */
  removed?(fileName: string): void;
}

export type RecordSection = 'packages' | 'packages.conda';

/** Repository data that is not what it should be. The message continues a sentence. */
export class RepodataError extends Error {}

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/**
 * Reads `repodata.json` in pieces, and hands over one record at a time: the whole would need many times its size in memory.
 * Source: conda, Repodata format (`info`, `packages`, `packages.conda` and `removed` are used, everything else is skipped).
 */
export class JsonRecords {
  readonly #receiver: RecordReceiver;
  readonly #maxRecordBytes: number;
  /** The beginning of the string or object that is being read is the first {@link #length} bytes. */
  #pending: Buffer = Buffer.alloc(0);
  #length = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #begun = false;
  #hasPackages = false;
  /** Start of the string or object that is being read, in the pending bytes; -1 for none. */
  #stringStart = -1;
  #objectStart = -1;
  /** The last strings on the first and the second level. */
  #section = '';
  #fileName = '';

  /** @param maxRecordBytes limit for a record, which is parsed at once: 1 MiB takes up to 30 ms */
  constructor(receiver: RecordReceiver, maxRecordBytes: number) {
    this.#receiver = receiver;
    this.#maxRecordBytes = maxRecordBytes;
  }

  /** Takes the next bytes, which are valid until it returns. Throws a {@link RepodataError}. */
  feed(piece: Uint8Array): void {
    const from = this.#length;
    const bytes = from === 0 ? bufferOf(piece) : this.#appended(piece);
    if (!this.#begun) this.#begin(bytes);
    this.#scan(bytes, from);
    const start = this.#objectStart >= 0 ? this.#objectStart : this.#stringStart;
    this.#keep(bytes, start < 0 ? bytes.length : start, from > 0);
    if (this.#objectStart >= 0) {
      if (this.#stringStart >= 0) this.#stringStart -= this.#objectStart;
      this.#objectStart = 0;
    } else if (this.#stringStart >= 0) {
      this.#stringStart = 0;
    }
  }

  /** Throws a {@link RepodataError} when the data is not complete. */
  end(): void {
    if (!this.#begun || this.#depth !== 0) throw new RepodataError('ends too early');
    if (!this.#hasPackages) throw new RepodataError('is not repository data: it has no packages');
  }

  /** Returns the pending bytes with a piece. Their room doubles: a record in many pieces is not copied for each of them. */
  #appended(piece: Uint8Array): Buffer {
    const length = this.#length + piece.length;
    if (length > this.#pending.length) {
      const larger = Buffer.allocUnsafe(2 * length);
      this.#pending.copy(larger, 0, 0, this.#length);
      this.#pending = larger;
    }
    this.#pending.set(piece, this.#length);
    return this.#pending.subarray(0, length);
  }

  /** @param isPending true for bytes that are the pending ones: a record that goes on is where it was */
  #keep(bytes: Buffer, start: number, isPending: boolean): void {
    this.#checkLength(bytes.length - start);
    this.#length = bytes.length - start;
    if (this.#length === 0 || (start === 0 && isPending)) return;
    if (this.#length > this.#pending.length) this.#pending = Buffer.allocUnsafe(2 * this.#length);
    bytes.copy(this.#pending, 0, start);
  }

  #checkLength(length: number): void {
    if (length <= this.#maxRecordBytes) return;
    throw new RepodataError(`has a record above ${this.#maxRecordBytes} bytes`);
  }

  #begin(bytes: Buffer): void {
    const text = bytes.subarray(0, 80).toString('utf8').trimStart();
    if (text === '') return;
    if (!text.startsWith('{')) {
      throw new RepodataError(
        `is not repository data: it begins with ${JSON.stringify(text.slice(0, 40))}`,
      );
    }
    this.#begun = true;
  }

  #scan(bytes: Buffer, from: number): void {
    for (let at = from; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (byte === backslash) this.#escaped = true;
        else if (byte === quote) this.#endString(bytes, at);
      } else if (byte === quote) {
        this.#inString = true;
        if (this.#depth <= 2) this.#stringStart = at;
      } else if (byte === openBrace || byte === openBracket) {
        this.#open(at);
      } else if (byte === closeBrace || byte === closeBracket) {
        this.#close(bytes, at);
      }
    }
  }

  #endString(bytes: Buffer, at: number): void {
    this.#inString = false;
    if (this.#stringStart < 0) return;
    if (this.#objectStart < 0) {
      const text = String(parse(bytes.subarray(this.#stringStart, at + 1)));
      if (this.#depth === 1) this.#section = text;
      else if (this.#section === 'removed') this.#receiver.removed?.(text);
      else this.#fileName = text;
    }
    this.#stringStart = -1;
  }

  #open(at: number): void {
    if (this.#depth === 1 && sectionOf(this.#section)) this.#hasPackages = true;
    const isInfo = this.#depth === 1 && this.#section === 'info';
    const isRecord = this.#depth === 2 && sectionOf(this.#section) !== undefined;
    if (isInfo || isRecord) this.#objectStart = at;
    this.#depth += 1;
  }

  #close(bytes: Buffer, at: number): void {
    this.#depth -= 1;
    if (this.#depth < 0)
      throw new RepodataError('is not repository data: a bracket is closed twice');
    if (this.#objectStart < 0) return;
    const section = sectionOf(this.#section);
    if (this.#depth === 2 && section !== undefined) {
      this.#receiver.record(section, this.#fileName, this.#object(bytes, at));
    } else if (this.#depth === 1) {
      this.#receiver.info(this.#object(bytes, at));
    }
  }

  /** Returns the object that ends at a position. */
  #object(bytes: Buffer, at: number): unknown {
    const object = bytes.subarray(this.#objectStart, at + 1);
    this.#objectStart = -1;
    this.#checkLength(object.length);
    return parse(object);
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function sectionOf(name: string): RecordSection | undefined {
  return name === 'packages' || name === 'packages.conda' ? name : undefined;
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw new RepodataError('is not valid JSON', { cause });
  }
}
