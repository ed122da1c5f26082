import { createHash } from 'node:crypto';
import type { FlowAlgorithm, FlowHash } from './flow-hash.ts';
import { HashThreads } from './hash-threads.ts';

/**
 * A smaller body is hashed on the main thread: the way to the hash thread and back takes longer than hashing (about
 * 0.5 ms a MiB), and the main loop is not held up.
 */
const inlineBytes = 1024 * 1024;

const sharedThreads = new HashThreads();

/**
 * Returns a hash that runs beside the main thread, so that reading and writing continue.
 * `expectedBytes`, when known to be small, keeps it on the main thread.
 */
export function createFlowHash(
  algorithm: FlowAlgorithm,
  expectedBytes?: number,
  threads: HashThreads = sharedThreads,
): FlowHash {
  if (expectedBytes !== undefined && expectedBytes < inlineBytes) return inlineHash(algorithm);
  return threads.open(algorithm);
}

function inlineHash(algorithm: FlowAlgorithm): FlowHash {
  const hash = createHash(algorithm);
  return {
    update: async chunk => {
      hash.update(chunk);
    },
    digest: async () => hash.digest('hex'),
    abort: () => {},
  };
}
