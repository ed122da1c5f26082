/** Clients of a cache that is too small: it removes copies all the time. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertBytes } from '../world/assert-bytes.ts';
import { startFaultWorld } from './fault-world.ts';
import { pattern } from './scripted-upstream.ts';

const clients = 8;
const rounds = 60;

test('a copy that is removed while clients ask for it comes from its registry again', async () => {
  // Patient timeouts: only the removals may be the reason of an error.
  await using world = await startFaultWorld({ cacheBytes: '150 kB', upstream: {} });
  const blobs = Array.from({ length: 4 }, (_, at) => pattern(100_000, `removed ${at}`));
  const image = world.upstreams.cache.image('removed/app', blobs);
  const pull = await world.serve(image);
  const client = async (_: unknown, number: number) => {
    for (let round = 0; round < rounds; round += 1) {
      const at = (number + round * (1 + (number % 3))) % blobs.length;
      const { status, body, isWhole } = await pull(`blobs/${image.layers[at]?.digest}`);
      assert.equal(status, 200, body.toString());
      assert.ok(isWhole);
      assertBytes(body, blobs[at]);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  // A cache that removes nothing asks once for each. How often one that does depends on how fast its clients are.
  const fetches = world.upstreams.cache.count('GET', '/blobs/');
  assert.ok(fetches > 3 * blobs.length, `copies were removed: ${fetches} fetches`);
});
