import { readFileSync } from 'node:fs';

/** What is used of it here: the types of Node do not have it. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
};

/** The functions of `deflate.c`. */
interface Deflate {
  readonly memory: { readonly buffer: ArrayBuffer };
  open(level: number, inputBytes: number): number;
  output(): number;
  compress(bytes: number): number;
  inflate(bytes: number): number;
  inflated(): number;
}

/** Memory to compress or to decompress one member after another. */
export interface DeflateInstance {
  readonly deflate: Deflate;
  /** Uncompressed bytes of a member. */
  readonly content: Buffer;
  /** Compressed bytes of a member, without header and trailer. */
  readonly stream: Buffer;
  /** Room for any member. */
  readonly member: Buffer;
}

/**
 * Uncompressed bytes of a member. A change, like one of the level, changes every layer: see `layerVersion`.
 */
export const memberBytes = 1024 * 1024;
const level = 5;

/** RFC 1952: magic, deflate, no flags, no time, no extra flags, unknown operating system. */
export const memberHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
export const trailerBytes = 8;
/** Bytes that a member has at most: incompressible content is stored, with 5 more for each 64 KiB. */
export const mostMemberBytes = memberBytes + 1024;

let compiled: object | undefined;
/** The last instance of this thread: each layer would leave its memory for the garbage collector. */
let spare: DeflateInstance | undefined;

/** Returns an instance with its own memory, about 4 MB. */
export function takeInstance(): DeflateInstance {
  const instance = spare ?? open();
  spare = undefined;
  return instance;
}

/** Takes back an instance that is not used any more. */
export function giveInstance(instance: DeflateInstance): void {
  spare = instance;
}

function open(): DeflateInstance {
  compiled ??= new WebAssembly.Module(readFileSync(new URL('./deflate.wasm', import.meta.url)));
  const deflate = new WebAssembly.Instance(compiled).exports as Deflate;
  const start = deflate.open(level, memberBytes);
  if (start === 0) throw new Error('there is no memory to compress a layer');
  const { buffer } = deflate.memory;
  return {
    deflate,
    content: Buffer.from(buffer, start, memberBytes),
    stream: Buffer.from(buffer, deflate.output(), mostMemberBytes - memberHeader.length),
    member: Buffer.allocUnsafeSlow(mostMemberBytes),
  };
}
