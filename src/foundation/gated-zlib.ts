/** Has everything in this thread make its zlib streams in the gate that a `Thread` closes before it ends. */
import { syncBuiltinESMExports } from 'node:module';
import { getEnvironmentData, isMainThread } from 'node:worker_threads';
import zlib from 'node:zlib';
import { gate, gateName } from './threads.ts';

type Made = (...given: never[]) => unknown;

const own = getEnvironmentData(gateName) as unknown as Int32Array | undefined;

/** Returns a function that does the same in the gate. In a closed gate it waits for the end of the thread. */
function gated<F extends Made>(make: F, gateOf: Int32Array): F {
  return ((...given) => {
    // A synchronous function makes a stream for itself.
    while (Atomics.compareExchange(gateOf, 0, gate.open, gate.taken) === gate.closed) {
      Atomics.wait(gateOf, 0, gate.closed);
    }
    try {
      return make(...given);
    } finally {
      Atomics.store(gateOf, 0, gate.open);
    }
  }) as F;
}

if (own && !isMainThread) {
  for (const [name, make] of Object.entries(zlib as unknown as Record<string, Made>)) {
    if (!/^create|Sync$/.test(name)) continue;
    // Some of them cannot be assigned.
    Object.defineProperty(zlib, name, { value: gated(make, own), enumerable: true });
  }
  syncBuiltinESMExports();
}
