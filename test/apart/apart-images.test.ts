/** Callers who do not trust each other know the names of images and contexts. One server for all of it, as for their steps. */
import { after, before, suite, test } from 'node:test';
import { type ApartWorld, openApartWorld, requireCache } from './apart-world.ts';
import { privateLayers } from './private-layers.ts';
import { replacedBase } from './replaced-base.ts';
import { uploadedContexts } from './uploaded-contexts.ts';

suite('images and contexts of callers apart', { concurrency: 1 }, () => {
  let world: ApartWorld;

  before(async () => {
    world = await openApartWorld();
  });
  after(() => world?.[Symbol.asyncDispose]());

  test('control: each caller has a cache', () => requireCache(world, 'ada', 'eve', 'stranger'));

  privateLayers(() => world);
  replacedBase(() => world);
  uploadedContexts(() => world);
});
