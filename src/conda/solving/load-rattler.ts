import { createRequire } from 'node:module';
import { withMaxMemory } from './bounded-module.ts';

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
