import { createHash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { TarError } from '../../../archives/index.ts';
import { memberBytes } from '../gzip/gzip-members.ts';

/** The most that a table of contents may have: a lazy client reads it into memory, too. */
export interface TocLimits {
  /** Bytes of the text. */
  readonly bytes: number;
  /** Bytes that it has here, compressed. */
  readonly packedBytes: number;
}

const unlimited = { bytes: Number.POSITIVE_INFINITY, packedBytes: Number.POSITIVE_INFINITY };

/**
 * A long text of ASCII, kept compressed: the table of contents of 100,000 files has 35 MB, and is written after the files. Its
 * compressed form never leaves this thread.
 */
export class TocText {
  readonly #packed: Buffer[] = [];
  readonly #hash = createHash('sha256');
  #texts: string[] = [];
  #length = 0;
  #packedLength = 0;
  #packedBytes = 0;
  readonly #limits: TocLimits;

  constructor(limits: TocLimits = unlimited) {
    this.#limits = limits;
  }

  /** Bytes of the whole text. */
  get length(): number {
    return this.#packedLength + this.#length;
  }

  /**
   * Adds a part. Throws a {@link TarError} when there is more than the limits allow.
   *
   * @param text at most {@link memberBytes}
   */
  add(text: string): void {
    if (this.#length + text.length > memberBytes) this.#pack();
    this.#texts.push(text);
    this.#length += text.length;
  }

  /** Returns the SHA-256 of the text, in hexadecimal digits. Nothing can be added after that. */
  digest(): string {
    this.#pack();
    return this.#hash.digest('hex');
  }

  /** Yields the text in pieces of at most {@link memberBytes}, after {@link digest}. */
  *pieces(): Generator<Buffer> {
    for (const packed of this.#packed) yield inflateRawSync(packed);
  }

  #pack(): void {
    if (this.#length === 0) return;
    const bytes = Buffer.from(this.#texts.join(''), 'latin1');
    this.#hash.update(bytes);
    const packed = deflateRawSync(bytes, { level: 1 });
    this.#packed.push(packed);
    this.#packedBytes += packed.length;
    this.#packedLength += this.#length;
    const { bytes: most, packedBytes: mostPacked } = this.#limits;
    if (this.#packedLength > most || this.#packedBytes > mostPacked) {
      throw new TarError(
        `has names and attributes that fill more than ${most} bytes of a table of contents, or ${mostPacked} compressed`,
      );
    }
    this.#texts = [];
    this.#length = 0;
  }
}
