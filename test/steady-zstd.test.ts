import assert from 'node:assert/strict';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { zstdDecompressSync } from 'node:zlib';
import { createSteadyZstd } from '../src/foundation/steady-zstd.ts';

test('the same bytes are compressed to the same bytes, however fast they come', async () => {
  const bytes = Buffer.from(Array.from({ length: 9000 }, (_, count) => `${count % 97} `).join(''));
  const compressed = async (size: number, turns: number): Promise<Buffer> => {
    const parts: Buffer[] = [];
    await pipeline(
      async function* () {
        for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
        for (let count = 0; count < turns; count += 1) await turn();
      },
      createSteadyZstd(9),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) parts.push(chunk);
      },
    );
    return Buffer.concat(parts);
  };
  const first = await compressed(bytes.length, 100);
  assert.deepEqual(zstdDecompressSync(first), bytes);
  for (const size of [100, 512, 4096, bytes.length]) {
    for (const turns of [0, 100]) assert.deepEqual(await compressed(size, turns), first);
  }
});
