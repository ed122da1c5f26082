/** Every page on paper, and in the colours that a reader has forced. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { requireAccessible, startBrowser, type TestBrowser } from './browser-world.ts';
import { type HostileWorld, startHostileWorld } from './hostile-world.ts';

const authorization = `Basic ${Buffer.from('admin:open sesame').toString('base64')}`;
// A4 at 96 dots an inch.
const paperWidth = 794;
let browser: TestBrowser;
let world: HostileWorld;

before(async () => {
  [browser, world] = await Promise.all([startBrowser(), startHostileWorld()]);
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

test('nothing is cut off at the edge of the paper, and buttons are not printed', async () => {
  await using tab = await browser.open({
    ...{ width: paperWidth, headers: { authorization }, mayFail: true },
  });
  const { page } = tab;
  await page.emulateMedia({ media: 'print' });
  for (const path of pages()) {
    await page.goto(world.sluice.url + path);
    const excess = await page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    assert.ok(Number(excess) <= 0, `${path} is ${excess} px too wide`);
    assert.equal(await page.locator('header.site:visible, button:visible').count(), 0, path);
    assert.ok(await page.locator('h1:visible').count(), path);
  }
});

test('every page is accessible in forced colours', async () => {
  await using tab = await browser.open({ headers: { authorization }, mayFail: true });
  const { page } = tab;
  await page.emulateMedia({ forcedColors: 'active' });
  for (const path of pages()) {
    await page.goto(world.sluice.url + path);
    await requireAccessible(page);
  }
});

/** Pages of people: not their pieces for scripts, not the icon, and not Swagger UI, which has its own styles. */
function pages(): readonly string[] {
  return world.paths.filter(path => !/\/(?:lines|events|state|favicon\.ico)$|^\/docs/.test(path));
}
