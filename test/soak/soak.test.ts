/** The short form of the soak, `npm run soak`: nothing that is counted grows. Memory grows until caches are full, and needs the long form. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { soak } from './soak.ts';

// The fewest in which a figure that rises each time is no chance.
const enough = 8;

test('rounds of mixed work leave no descriptor, connection, thread, timer or listener behind', async t => {
  const { trends, growing, failures } = await soak({
    warmUp: 2,
    restMs: 300,
    isOver: rounds => rounds === enough,
    judged: /(?:descriptors|connections|threads|handles|listeners)/,
  });
  const [heap] = [...trends].filter(([name]) => name.endsWith('heap')).map(([, trend]) => trend);
  t.diagnostic(`heap: ${heap?.perRound.toFixed(0)} bytes a round`);
  assert.ok(trends.size > 50, 'figures are measured');
  assert.deepEqual(failures, []);
  assert.deepEqual(growing, []);
});
