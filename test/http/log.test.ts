import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutToken } from '../../src/telemetry.ts';
import { startSluice } from '../world/sluice.ts';

test('what opens a door is not in the log, also where it does not belong', async () => {
  await using sluice = await startSluice({
    config: { platform: { pairingToken: 'pairing-secret-of-the-operator' } },
  });
  // A proxy that does not hand on the upgrade makes plain requests of those that would pair.
  for (const path of [
    '/pairing/tower/token/pairing-secret-of-the-operator?endpoint=https://tower.example',
    '/pairing/tower/token/pairing-secret-of-the-operator/',
    '/proxy/pairing//token/x/pairing-secret-of-the-operator',
    `/platform/tokens/sluice_${'0a'.repeat(20)}`,
  ]) {
    assert.ok([403, 404].includes((await sluice.fetch(path)).status), path);
  }
  const paths = (await sluice.requests()).map(({ path }) => path);
  assert.deepEqual(paths, [
    '/pairing/tower/token/<token>',
    '/pairing/tower/token/<token>',
    '/proxy/pairing//token/<token>',
    '/platform/tokens/<token>',
  ]);
  assert.ok(!sluice.output().includes('secret-of'));
});

test('what is no token stays in a text', () => {
  for (const text of ['/platform/tokens/17', 'a pairing of the token', '/v2/pairing/tags/list']) {
    assert.equal(withoutToken(text), text);
  }
});
