import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configuredShares } from '../../src/server/config/read/access-in-force.ts';
import { configSchema } from '../../src/server/config/settings-schema.ts';

test('strangers leave a permit and half of the queue to users, except on a local server', () => {
  const open = { access: { builds: 'open' } };
  const elsewhere = 'https://images.example.com';
  const here = 'http://127.0.0.1:9090';
  for (const [settings, url, permits, places] of [
    [open, elsewhere, 1, 500],
    [{ ...open, builds: { concurrent: 8, maxWaiting: 101 } }, elsewhere, 7, 50],
    [{ ...open, builds: { concurrent: 1, maxWaiting: 1 } }, elsewhere, 1, 1],
    [{ ...open, builds: { concurrentAnonymous: 2, maxWaitingAnonymous: 7 } }, elsewhere, 2, 7],
    // Its callers without a login are the people of this machine.
    [{}, here, 2, 1000],
    // A tunnel may lead to it.
    [open, here, 1, 500],
  ] as const) {
    const shares = configuredShares(configSchema.parse(settings), new URL(url));
    const { concurrent, waiting } = shares;
    const found = [concurrent.ofAnonymous, waiting.ofAnonymous];
    assert.deepEqual(found, [permits, places], JSON.stringify(settings));
    assert.equal(concurrent.ofOne, concurrent.inAll);
  }
  const own = configSchema.parse({ builds: { concurrent: 8, concurrentPerCaller: 3 } });
  assert.equal(configuredShares(own, new URL(here)).concurrent.ofOne, 3);
});
