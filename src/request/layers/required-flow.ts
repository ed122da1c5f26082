import { Fault } from '../../foundation/fault.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';

// A slower server occupies a connection and its memory for too little data.
const minBytesPerSecond = 16 * 1024;
const patienceMs = 60_000;

/** Returns the source. It ends when it is too slow for too long; only the time spent waiting for it counts. */
export function requireFlow(source: ByteSource, host: string): ByteSource {
  let waitedMs = 0;
  let size = 0;
  return {
    async read() {
      const began = performance.now();
      const chunk = await source.read();
      waitedMs += performance.now() - began;
      size += chunk?.bytes.length ?? 0;
      if (!chunk || waitedMs < patienceMs || size >= (waitedMs / 1000) * minBytesPerSecond) {
        return chunk;
      }
      source.destroy();
      throw new Fault(
        'bad-request',
        `${host} sends less than ${minBytesPerSecond} bytes per second: try again, or name a faster host`,
        { phase: 'upstream' },
      );
    },
    destroy: reason => source.destroy(reason),
  };
}
