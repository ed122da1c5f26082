/** Starts and ends threads that unpack all the time. A process of its own, because Node may end it. */
import '../../src/foundation/gated-zlib.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, parentPort } from 'node:worker_threads';
import { createGunzip, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { Thread } from '../../src/foundation/threads.ts';

const rounds = 40;

if (isMainThread) {
  for (let round = 0; round < rounds; round += 1) {
    const thread = new Thread(new URL(import.meta.url));
    await thread.next();
    await sleep(Math.random() * 3);
    await thread.end();
  }
} else {
  const packed = zstdCompressSync('text');
  parentPort?.postMessage('begun');
  for (;;) {
    if (String(zstdDecompressSync(packed)) !== 'text') throw new Error('It is not unpacked');
    createGunzip().destroy();
  }
}
