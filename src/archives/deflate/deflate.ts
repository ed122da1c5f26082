import { readFileSync } from 'node:fs';

export { openEnded } from './open-ended.ts';

/** What is used of it here: the types of Node do not have it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** The functions of `deflate.c`. */
interface DeflateExports {
  readonly memory: { readonly buffer: ArrayBuffer };
  open(level: number, inputBytes: number): number;
  output(): number;
  compress(bytes: number): number;
  inflate(bytes: number): number;
  inflated(): number;
}

/** One compressor and one decompressor with their memory. The same bytes become the same bytes on every machine. */
export interface Deflate {
  /** Uncompressed bytes. */
  readonly content: Buffer;
  /** Compressed bytes, without header and trailer. */
  readonly stream: Buffer;
  /** Compresses the first bytes of the content into the stream. Returns the bytes of the stream. */
  compress(bytes: number): number;
  /**
   * Decompresses the stream, which may be followed by others, into the content. Returns the bytes of the stream, 0 if it
   * is damaged.
   */
  inflate(bytes: number): number;
  /** Returns the bytes of the content after {@link inflate}. */
  inflated(): number;
}

/** The level of layers for which nobody specifies another one. */
export const usualLevel = 5;

let compiled: object | undefined;

/**
 * Opens a compressor. Its memory is returned when nothing refers to it any more.
 *
 * @param inputBytes the most bytes to compress at once
 * @param streamBytes the most bytes of the stream to look at
 */
export function openDeflate(level: number, inputBytes: number, streamBytes: number): Deflate {
  compiled ??= new WebAssembly.Module(readFileSync(new URL('./deflate.wasm', import.meta.url)));
  const deflate = new WebAssembly.Instance(compiled).exports as DeflateExports;
  const start = deflate.open(level, inputBytes);
  if (start === 0) throw new Error('there is no memory to compress');
  const { buffer } = deflate.memory;
  return {
    content: Buffer.from(buffer, start, inputBytes),
    stream: Buffer.from(buffer, deflate.output(), streamBytes),
    compress: deflate.compress,
    inflate: deflate.inflate,
    inflated: deflate.inflated,
  };
}
