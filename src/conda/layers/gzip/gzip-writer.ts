import { readFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';

/**
 * Compresses bytes as gzip members, for layers. The same bytes give the same members on every machine, whatever the
 * sizes of the pieces. It computes on the thread that calls it: about 80 MB a second.
 */
export interface GzipWriter extends Disposable {
  /** Takes the next bytes, of any length. */
  write(bytes: Uint8Array): void;
  /** Ends the last member. What is written next begins a new one. */
  end(): void;
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
/** Bytes that a member has at most: incompressible ones are stored, with 5 more for each 64 KiB. */
export const mostMemberBytes = memberBytes + 1024;

interface Instance {
  readonly deflate: Deflate;
  readonly input: Uint8Array;
  /** Room for any member. */
  readonly member: Buffer;
}

let compiled: object | undefined;
/** The last instance of this thread: each layer would leave its memory for the garbage collector. */
let spare: Instance | undefined;

/**
 * Returns a writer with its own memory, about 4 MB.
 *
 * @param put receives each member: a view that is valid until it returns
 */
export function createGzipWriter(put: (member: Buffer) => void): GzipWriter {
  const instance = spare ?? open();
  spare = undefined;
  const { deflate, input, member } = instance;
  let size = 0;

  const end = (): void => {
    if (size === 0) return;
    const deflated = deflate.compress(size);
    header.copy(member);
    member.set(new Uint8Array(deflate.memory.buffer, deflate.output(), deflated), header.length);
    const sum = crc32(input.subarray(0, size));
    const at = member.writeUInt32LE(sum, header.length + deflated);
    const length = member.writeUInt32LE(size, at);
    size = 0;
    put(member.subarray(0, length));
  };

  return {
    write(bytes) {
      for (let from = 0; from < bytes.length; ) {
        const piece = bytes.subarray(from, from + memberBytes - size);
        input.set(piece, size);
        size += piece.length;
        from += piece.length;
        if (size === memberBytes) end();
      }
    },
    end,
    [Symbol.dispose]() {
      spare = instance;
    },
  };
}

function open(): Instance {
  compiled ??= new WebAssembly.Module(readFileSync(new URL('./deflate.wasm', import.meta.url)));
  const deflate = new WebAssembly.Instance(compiled).exports as Deflate;
  const start = deflate.open(level, memberBytes);
  if (start === 0) throw new Error('there is no memory to compress a layer');
  const input = new Uint8Array(deflate.memory.buffer, start, memberBytes);
  return { deflate, input, member: Buffer.allocUnsafeSlow(mostMemberBytes) };
}
