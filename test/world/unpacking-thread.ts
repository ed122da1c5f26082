/** Starts and ends threads that unpack all the time. A process of its own, because Node may end it. */
import '../../src/foundation/gated-zlib.ts';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, parentPort } from 'node:worker_threads';
import { createGunzip, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { endThread, startThread } from '../../src/foundation/work.ts';

const rounds = 40;

if (isMainThread) {
  for (let round = 0; round < rounds; round += 1) {
    const thread = startThread(new URL(import.meta.url));
    await once(thread, 'message');
    await sleep(Math.random() * 3);
    await endThread(thread);
  }
} else {
  const packed = zstdCompressSync('text');
  parentPort?.postMessage('begun');
  for (;;) {
    if (String(zstdDecompressSync(packed)) !== 'text') throw new Error('It is not unpacked');
    createGunzip().destroy();
  }
}
