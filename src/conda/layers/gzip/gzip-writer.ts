import { readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/**
 * Compresses bytes as gzip members, for layers. The same bytes give the same members on every machine, whatever the
 * sizes of the pieces. It computes on the thread that calls it: about 80 MB a second.
 */
export interface GzipWriter {
  /** Takes the next bytes, of any length; returns the members that are complete. */
  write(bytes: Uint8Array): Buffer<ArrayBuffer>[];
  /** Ends the last member and returns it; undefined when no bytes are left. What is written next begins a new one. */
  end(): Buffer<ArrayBuffer> | undefined;
}

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
}

/**
 * Uncompressed bytes of a member. A change, like one of the level, changes every layer: see `layerVersion`.
 */
const memberBytes = 1024 * 1024;
const level = 5;

// RFC 1952: magic, deflate, no flags, no time, no extra flags, unknown operating system.
const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
const trailerBytes = 8;

let compiled: object | undefined;

/** Returns a writer with its own memory, about 3 MB. */
export function createGzipWriter(): GzipWriter {
  compiled ??= new WebAssembly.Module(readFileSync(new URL('./deflate.wasm', import.meta.url)));
  const deflate = new WebAssembly.Instance(compiled).exports as Deflate;
  const start = deflate.open(level, memberBytes);
  if (start === 0) throw new Error('there is no memory to compress a layer');
  const input = new Uint8Array(deflate.memory.buffer, start, memberBytes);
  let size = 0;

  const member = (): Buffer<ArrayBuffer> => {
    const deflated = deflate.compress(size);
    const result = Buffer.allocUnsafeSlow(header.length + deflated + trailerBytes);
    header.copy(result);
    result.set(new Uint8Array(deflate.memory.buffer, deflate.output(), deflated), header.length);
    result.writeUInt32LE(crc32(input.subarray(0, size)), header.length + deflated);
    result.writeUInt32LE(size, header.length + deflated + 4);
    size = 0;
    return result;
  };

  return {
    write(bytes) {
      const members: Buffer<ArrayBuffer>[] = [];
      for (let from = 0; from < bytes.length; ) {
        const piece = bytes.subarray(from, from + memberBytes - size);
        input.set(piece, size);
        size += piece.length;
        from += piece.length;
        if (size === memberBytes) members.push(member());
      }
      return members;
    },
    end: () => (size === 0 ? undefined : member()),
  };
}
