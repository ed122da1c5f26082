import { createRequire } from 'node:module';

type Rattler = typeof import('@conda-org/rattler');

/** What is used of it here: the types of Node do not have it. */
interface WebAssemblyParts {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object, imports?: object) => { readonly exports: object };
}

export interface LoadedRattler {
  readonly rattler: Rattler;
  /** Bytes of its memory, which only grows. */
  memoryBytes(): number;
}

/**
 * Loads the solver with a bound on its memory. The package compiles its module itself, so the constructors are replaced
 * meanwhile. Only for a thread that does nothing else.
 */
export function loadRattler(maxBytes: number): LoadedRattler {
  const parts = (globalThis as unknown as { WebAssembly: WebAssemblyParts }).WebAssembly;
  const { Module, Instance } = parts;
  let memory: { readonly buffer: ArrayBuffer } | undefined;
  parts.Module = class extends Module {
    constructor(bytes: Uint8Array) {
      super(withMaxMemory(bytes, maxBytes));
    }
  };
  parts.Instance = class extends Instance {
    constructor(module: object, imports?: object) {
      super(module, imports);
      ({ memory } = this.exports as { memory?: { readonly buffer: ArrayBuffer } });
    }
  };
  try {
    // The entry for `import` expects a bundler.
    const rattler = createRequire(import.meta.url)('@conda-org/rattler') as Rattler;
    return { rattler, memoryBytes: () => memory?.buffer.byteLength ?? 0 };
  } finally {
    Object.assign(parts, { Module, Instance });
  }
}

const pageBytes = 64 * 1024;
const headerBytes = 8;
const memorySection = 5;

/**
 * Returns a WebAssembly module whose memory may not grow above `maxBytes`: compilers declare no maximum, and memory that
 * was taken is never given back. Throws an error for a module that does not define its memory.
 * Source: WebAssembly Core Specification, Binary Format, Modules (sections, memory section, limits).
 */
function withMaxMemory(module: Uint8Array, maxBytes: number): Buffer {
  const bytes = Buffer.from(module.buffer, module.byteOffset, module.byteLength);
  for (let at = headerBytes; at < bytes.length; ) {
    const [size, body] = readUnsigned(bytes, at + 1);
    if (bytes[at] !== memorySection) {
      at = body + size;
      continue;
    }
    const [count, flagsAt] = readUnsigned(bytes, body);
    const [least] = readUnsigned(bytes, flagsAt + 1);
    if (count !== 1 || bytes[flagsAt] !== 0) break;
    const most = Math.max(least, Math.floor(maxBytes / pageBytes));
    const limits = Buffer.from([1, 1, ...unsigned(least), ...unsigned(most)]);
    const section = Buffer.from([memorySection, ...unsigned(limits.length), ...limits]);
    return Buffer.concat([bytes.subarray(0, at), section, bytes.subarray(body + size)]);
  }
  throw new Error('the module has no memory that can be bounded');
}

/** Reads LEB128; returns the number and where the bytes after it begin. */
function readUnsigned(bytes: Buffer, from: number): readonly [value: number, next: number] {
  let value = 0;
  for (let at = from, shift = 0; shift < 35; at += 1, shift += 7) {
    const byte = bytes.readUInt8(at);
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return [value, at + 1];
  }
  throw new Error('the module has a number that is too large');
}

function unsigned(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)];
}
