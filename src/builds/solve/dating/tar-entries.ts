import { readPaxRecords } from '../../../images/sif/tar/pax.ts';
import { paddedSize, tarBlockSize } from '../../../images/sif/tar/tar-entry.ts';
import { TarError } from '../../../images/sif/tar/tar-error.ts';
import { isZeroBlock, readHeader, type TarHeader } from '../../../images/sif/tar/tar-header.ts';

/** An entry of a layer. Each character of `path` and `link` stands for a byte. */
export interface LayerEntry {
  readonly path: string;
  /** The type of the tar header: `0` for a file, `1` for a hard link. */
  readonly type: string;
  /** Bytes of content. */
  readonly size: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  readonly link: string;
  /** False if the time is stored where it cannot be changed. */
  readonly isDatable: boolean;
  /** Writes another time into the entry. */
  date(mtime: number): void;
}

/** Visits the entries of a layer, and may change them in place. */
export interface LayerVisitor {
  /** Called for each entry; returns true to receive the beginning of its content. */
  entry(entry: LayerEntry): boolean;
  /** Receives the first block of the content, and may change it in place. */
  content(block: Buffer): void;
}

const maxExtensionBytes = 1024 * 1024;
const timeOffset = 136;
const sumOffset = 148;

/** Walks through the tar file of a layer as its bytes pass. Throws `TarError` for input that no builder writes. */
export class LayerEntries {
  readonly #visitor: LayerVisitor;
  #rest: Buffer = Buffer.alloc(0);
  /** Bytes left of the current content, including its padding. */
  #body = 0;
  #isWanted = false;
  #extension: { readonly type: string; readonly size: number; parts: Buffer[] } | undefined;
  #pax: Map<string, string> | undefined;
  #longName: string | undefined;
  #longLink: string | undefined;

  constructor(visitor: LayerVisitor) {
    this.#visitor = visitor;
  }

  /** Takes the next bytes; returns the finished ones, in whole blocks. */
  pass(chunk: Buffer): Buffer {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    const whole = bytes.length - (bytes.length % tarBlockSize);
    for (let at = 0; at < whole; ) at += this.#step(bytes.subarray(at, whole));
    this.#rest = Buffer.from(bytes.subarray(whole));
    return bytes.subarray(0, whole);
  }

  /** Returns the bytes after the last block; a well-formed layer has none. */
  end(): Buffer {
    if (this.#body > 0 || this.#extension) throw new TarError('ends in the middle of a tar entry');
    return this.#rest;
  }

  /** Returns how many of the bytes it took. */
  #step(bytes: Buffer): number {
    if (this.#body === 0) {
      this.#takeHeader(bytes.subarray(0, tarBlockSize));
      return tarBlockSize;
    }
    const size = Math.min(this.#body, bytes.length);
    this.#body -= size;
    if (this.#extension) {
      this.#extension.parts.push(Buffer.from(bytes.subarray(0, size)));
      if (this.#body === 0) this.#takeExtension(this.#extension);
    } else if (this.#isWanted) {
      this.#isWanted = false;
      this.#visitor.content(bytes.subarray(0, tarBlockSize));
    }
    return size;
  }

  #takeHeader(block: Buffer): void {
    if (isZeroBlock(block)) return;
    const header = readHeader(block);
    const { type } = header;
    if ('xgLK'.includes(type)) {
      if (header.size > maxExtensionBytes) throw new TarError('has a tar header longer than 1 MiB');
      this.#extension = { type, size: header.size, parts: [] };
      this.#body = paddedSize(header.size);
      if (this.#body === 0) this.#extension = undefined;
      return;
    }
    if (!'01234567\0'.includes(type)) throw new TarError('has an entry of unknown tar type');
    this.#takeEntry(header, block);
  }

  #takeExtension({ type, size, parts }: { type: string; size: number; parts: Buffer[] }): void {
    this.#extension = undefined;
    const body = Buffer.concat(parts).subarray(0, size);
    const text = () => body.toString('latin1').replace(/\0.*$/s, '');
    if (type === 'x') this.#pax = readPaxRecords(body);
    else if (type === 'L') this.#longName = text();
    else if (type === 'K') this.#longLink = text();
  }

  #takeEntry(header: TarHeader, block: Buffer): void {
    const pax = this.#pax;
    const paxTime = pax?.get('mtime');
    const size = Number(pax?.get('size') ?? header.size);
    const isFile = '07\0'.includes(header.type);
    if (!Number.isSafeInteger(size) || size < 0)
      throw new TarError('has an entry of impossible size');
    const path = this.#longName ?? pax?.get('path') ?? header.name;
    const link = this.#longLink ?? pax?.get('linkpath') ?? header.link;
    this.#pax = undefined;
    this.#longName = undefined;
    this.#longLink = undefined;
    this.#body = isFile ? paddedSize(size) : 0;
    this.#isWanted = this.#visitor.entry({
      path: path.replace(/^(?:\.?\/)+/, ''),
      type: isFile ? '0' : header.type,
      size: isFile ? size : 0,
      mtime: paxTime === undefined ? header.mtime : Math.floor(Number(paxTime)),
      link: link.replace(/^(?:\.?\/)+/, ''),
      // BuildKit writes whole seconds, which fit into the header.
      isDatable: paxTime === undefined,
      date: mtime => writeTime(block, mtime),
    });
  }
}

function writeTime(block: Buffer, mtime: number): void {
  block.write(`${mtime.toString(8).padStart(11, '0')}\0`, timeOffset, 'latin1');
  block.fill(' ', sumOffset, sumOffset + 8);
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, sumOffset, 'latin1');
}
