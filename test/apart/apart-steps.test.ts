/**
 * Callers who do not trust each other run the same steps. One server for all of it: its start and that of a builder for
 * each caller cost as much as twenty builds.
 */
import { after, before, suite, test } from 'node:test';
import { type ApartWorld, openApartWorld, requireCache } from './apart-world.ts';
import { proxyArguments } from './proxy-arguments.ts';
import { sharedSteps } from './shared-steps.ts';

suite('steps of callers apart', { concurrency: 1 }, () => {
  let world: ApartWorld;

  before(async () => {
    world = await openApartWorld({ config: { builds: { cacheMounts: 'owner' } } });
  });
  after(() => world?.[Symbol.asyncDispose]());

  test('control: each caller has a cache', () => requireCache(world, 'ada', 'eve', 'stranger'));

  sharedSteps(() => world);
  proxyArguments(() => world);
});
