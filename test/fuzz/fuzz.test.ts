import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boundMs } from '../world/longest-block.ts';
import { startFuzzWorld } from './fuzz-world.ts';
import { fuzz } from './run.ts';

const count = 4000;
// More are tried by hand: node test/fuzz/by-hand.ts <count> [seed] [lanes].
const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));

test(`${count} requests of all dialects do no harm (SEED=${seed})`, async t => {
  await using world = await startFuzzWorld();
  const { figures, findings } = await fuzz(world, { seed, count, lanes: 4 });
  assert.deepEqual(findings, [], `SEED=${seed}`);
  assert.equal(figures.sent, count);
  assert.equal((await world.server.sluice.fetch('/healthz')).status, 200);
  // Unexpected failures are not allowed: the log shows them even if the response does not.
  assert.ok(!/unexpected error|uncaught|unhandled/i.test(world.server.sluice.output()));
  // Twice the bound of one request: several come at once, and garbage is collected.
  const bound = boundMs(100);
  const { longestTurnMs } = figures;
  t.diagnostic(`the longest turn took ${longestTurnMs.toFixed(1)} of ${bound.toFixed(1)} ms`);
  assert.ok(longestTurnMs < bound, `the event loop was held for ${longestTurnMs} of ${bound} ms`);
  const grown = (figures.lastRss - figures.earlyRss) / 2 ** 20;
  assert.ok(grown < 100, `the memory grew by ${grown} MiB`);
  const statuses = new Map([...figures.statuses].filter(([status]) => status !== 'none'));
  assert.ok((statuses.get(200) ?? 0) > count / 20, 'not all of them are refused');
});
