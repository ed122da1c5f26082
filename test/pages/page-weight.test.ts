/** The weight of pages. The paths come from their routes, so a new page is weighed too. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type HostileWorld, startHostileWorld } from './hostile-world.ts';
import { loadFirstView } from './page-files.ts';

const most = 100_000;
const authorization = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;

suite('the weight of pages', () => {
  let world: HostileWorld;
  before(async () => {
    world = await startHostileWorld();
  });
  after(async () => {
    await world?.[Symbol.asyncDispose]();
  });

  test('the first view of every page is light', async () => {
    for (const path of world.paths) {
      const { html, files, bytes } = await loadFirstView(world.sluice.url, path, { authorization });
      // Pieces of pages and lists of events have no files.
      if (!html.startsWith('<!doctype html>')) continue;
      assert.ok(files.length >= 2, path);
      assert.ok(bytes < most, `${path}: ${bytes} bytes`);
    }
  });
});
