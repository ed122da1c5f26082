/** The log of a build by its steps, in a real browser while a real BuildKit runs. */
import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { checkLooks } from './browser-world.ts';
import { type BuildWorld, startBuildWorld } from './build-world.ts';

suite('the log of a build by its steps', () => {
  let world: BuildWorld;

  before(async () => {
    world = await startBuildWorld();
  });
  after(() => world?.stop());

  test('the lines of one step follow live, and only they', async () => {
    const id = await world.build(
      `FROM ${world.base}\nRUN for i in $(seq 1 8); do echo "beat $i"; sleep 1; done\nRUN echo other\n`,
    );
    await using tab = await world.browser.open();
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    await page.locator('#course .steps a', { hasText: '#5' }).waitFor();
    await page.goto(`${world.sluice.url}/view/builds/${id}?step=5`);
    await page.locator('.line', { hasText: 'beat 2' }).waitFor();
    await page.locator('#state .badge.good', { hasText: 'succeeded' }).waitFor();
    await page.locator('.line', { hasText: '#5 DONE' }).waitFor();
    const lines = await page.locator('.line > span').allTextContents();
    assert.ok(
      lines.every(line => line.startsWith('#5 ')),
      lines.join('\n'),
    );
    for (let beat = 1; beat <= 8; beat += 1) {
      assert.equal(lines.filter(line => line.endsWith(`beat ${beat}`)).length, 1, `${beat}`);
    }
  });

  test('running steps unfold themselves and fold when they are done', async () => {
    await using tab = await world.browser.open();
    const { page } = tab;
    const id = await world.build(
      `FROM ${world.base}\nRUN for i in 1 2 3 4; do echo "folded $i"; sleep 3; done\nRUN echo quick\n`,
    );
    await page.goto(`${world.sluice.url}/view/builds/${id}?view=steps`);
    const fold = (number: number) => page.locator(`details.log-step[data-step="${number}"]`);
    await page.locator('details.log-step[open] .line', { hasText: 'folded 2' }).waitFor();
    await fold(5).locator('.badge.good').waitFor();
    await page.locator('details.log-step[data-step="5"]:not([open])').waitFor();
    await page.locator('#state .badge.good', { hasText: 'succeeded' }).waitFor();
    assert.match(
      (await fold(6).locator('summary').textContent()) ?? '',
      /^#6 \[3\/3\] RUN echo quick done/,
    );
    await fold(6).locator('summary').click();
    await fold(6).locator('.line', { hasText: 'quick' }).last().waitFor();

    await page.reload();
    assert.equal(await page.locator('details.log-step[open]').count(), 0);
    await fold(5).locator('summary').click();
    await fold(5).locator('.line', { hasText: 'folded 4' }).waitFor();
    await checkLooks(
      world.browser,
      `${world.sluice.url}/view/builds/${id}?view=steps&open=5`,
      'build-steps',
    );
  });

  test('without scripts a failed step is unfolded, and links unfold the others', async () => {
    const id = await world.build(
      `FROM ${world.base}\nRUN for i in $(seq 1 500); do echo "row $i"; done\nRUN echo broken; exit 7\n`,
    );
    await world.finished(id);
    await using tab = await world.browser.open({ javaScript: false });
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    await page.getByRole('link', { name: 'Step by step' }).click();
    const open = page.locator('details.log-step[open]');
    assert.equal(await open.count(), 1);
    assert.match((await open.textContent()) ?? '', /broken[\s\S]*ERROR: .*exit code: 7/);
    await page.locator('details.log-step[data-step="5"] summary').click();
    await page.getByRole('link', { name: /^Unfold its 5\d\d lines$/ }).click();
    const rows = page.locator('details[data-step="5"] .line');
    assert.equal(await rows.count(), 300);
    assert.match((await rows.last().textContent()) ?? '', /#5 DONE/);
    await page.getByRole('link', { name: /^All 5\d\d lines of this step$/ }).click();
    assert.match((await page.locator('.line').nth(3).textContent()) ?? '', /row 3$/);
    await page.locator('.line a').nth(3).click();
    assert.equal(await page.locator('.line:target').count(), 1);

    const lack = page.getByText('not sorted by step');
    await page.goto(`${world.sluice.url}/view/builds/${id}?step=5`);
    assert.equal(await lack.count(), 0);
    const turns = Array.from({ length: 20_001 }, (_, at) => `#${5 + (at % 2)} 0.1 turn ${at}\n`);
    await appendFile(join(world.sluice.data, 'logs/builds', `${id}.log`), turns.join(''));
    await page.reload();
    assert.equal(await lack.count(), 1);
    await page.getByRole('link', { name: 'The log line by line' }).click();
    await page.locator('.line').first().waitFor();
    assert.equal(await lack.count(), 0);
  });
});
