import { createHash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { memberBytes } from '../gzip/gzip-members.ts';

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

  /** Bytes of the whole text. */
  get length(): number {
    return this.#packedLength + this.#length;
  }

  /** @param text at most {@link memberBytes} */
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
    this.#packed.push(deflateRawSync(bytes, { level: 1 }));
    this.#packedLength += this.#length;
    this.#texts = [];
    this.#length = 0;
  }
}
