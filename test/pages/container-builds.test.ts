/** The page of a container while its image is built: real builds on a real BuildKit, one at a time. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { ContainerResponse } from '../world/sluice.ts';
import { checkLooks, type OpenTab, requireAccessible } from './browser-world.ts';
import { type BuildWorld, startBuildWorld } from './build-world.ts';

suite('the page of a container that is built', () => {
  let world: BuildWorld;

  before(async () => {
    world = await startBuildWorld({
      config: { accounts: { admin: 'secret' }, builds: { concurrent: 1 } },
    });
  });
  after(() => world?.stop());

  const ask = (lines: string) => world.request(`FROM ${world.base}\n${lines}\n`);
  const addressOf = ({ containerToken }: ContainerResponse) =>
    `${world.sluice.url}/view/containers/${containerToken}`;

  test('a waiting and a running build become ready on the page, without a reload', async () => {
    await using one = await world.browser.open();
    await using two = await world.browser.open();
    const first = await ask('RUN sleep 10 && echo one > /one');
    const second = await ask('RUN sleep 4 && echo two > /two');
    await one.page.goto(addressOf(first));
    await two.page.goto(addressOf(second));
    await two.page.locator('#state').getByText('Waiting').waitFor();
    await two.page.locator('#build').getByText('This build waits for').waitFor();
    await one.page.locator('#build tr.running', { hasText: 'sleep 10' }).waitFor();
    await one.page.locator('#state').getByText('Building').waitFor();
    assert.match(await one.page.title(), /^Building: container /);
    await one.page.getByText(`docker run --rm -it ${first.targetImage}`).waitFor();
    await requireAccessible(one.page);
    await requireAccessible(two.page);
    const copy = one.page.getByRole('button', { name: 'Copy the name' });
    await copy.focus();
    // It runs for a short time, while the page of the first one fetches what is in its image.
    const runs = two.page.locator('#build tr.running', { hasText: 'sleep 4' }).waitFor();
    runs.catch(() => {});

    await one.page.locator('#state').getByText('Ready').waitFor();
    await one.page.locator('#contents .stack').waitFor();
    assert.match(await one.page.title(), /^Ready: container /);
    assert.equal(await one.page.locator('#use button:focus').count(), 1);
    assert.equal(await one.page.locator('#build').textContent(), '');
    await runs;
    await two.page.locator('#state').getByText('Ready').waitFor();
    await two.page.locator('#contents .stack').waitFor();
  });

  test('the list of builds follows waiting and running builds, with scripts and without', async () => {
    const headers = { authorization: `Basic ${btoa('admin:secret')}` };
    await using live = await world.browser.open({ headers });
    await using plain = await world.browser.open({ headers, javaScript: false });
    const first = await ask('RUN sleep 8 && echo list one > /one');
    const second = await ask('RUN sleep 12 && echo list two > /two');
    const rowOf = ({ page }: OpenTab, { targetImage }: ContainerResponse) =>
      page.locator('#builds tbody tr', { hasText: targetImage.split('/').at(-1) ?? '' });
    const states = (tab: OpenTab, response: ContainerResponse) => ({
      is: (word: string) => rowOf(tab, response).locator('.badge', { hasText: word }).waitFor(),
    });
    const address = `${world.sluice.url}/view/builds`;
    await Promise.all([live.page.goto(address), plain.page.goto(address)]);
    // A loaded page forgets it.
    await live.page.evaluate("document.documentElement.dataset.sameLoad = 'yes'");
    for (const tab of [live, plain]) await states(tab, second).is('waiting');
    await states(live, first).is('succeeded');
    await states(live, second).is('running');
    // A person who is about to follow a link keeps the row under the keys.
    const link = rowOf(live, second).getByRole('link');
    await link.focus();
    for (const response of [first, second]) await states(plain, response).is('succeeded');
    assert.equal(await live.page.locator('#builds a:focus').count(), 1);
    await states(live, second).is('running');
    await link.blur();
    await states(live, second).is('succeeded');
    await live.page.locator('html[data-same-load="yes"]').waitFor();
    // Nothing runs any more: neither page asks again.
    assert.equal(await live.page.locator('[data-moving]').count(), 0);
    assert.equal(await plain.page.locator('meta[http-equiv="refresh"]').count(), 0);
    await requireAccessible(live.page);
  });

  test('without scripts the page of a running build has its steps, and loads itself again', async () => {
    await using tab = await world.browser.open({ javaScript: false });
    const response = await ask('RUN sleep 8 && echo plain > /plain');
    await tab.page.goto(addressOf(response));
    await tab.page.locator('#build tr.running', { hasText: 'sleep 8' }).waitFor();
    await tab.page.locator('#state').getByText('Ready').waitFor();
  });

  test('a failed build says why, with its build, and no command', async () => {
    const response = await ask('RUN sleep 1 && echo no such thing && exit 3');
    await using tab = await world.browser.open();
    await tab.page.goto(addressOf(response));
    await tab.page.locator('#state').getByText('Build failed').waitFor();
    await tab.page.locator('#state .failure', { hasText: 'no such thing' }).waitFor();
    assert.equal(await tab.page.getByText('docker run').count(), 0);
    await tab.page.locator('#state').getByRole('link', { name: 'the build' }).click();
    await tab.page.locator('.recipe tr.failed').waitFor();
    await checkLooks(world.browser, addressOf(response), 'container-failed');
  });

  test('a running build looks well at every width, light and dark', async () => {
    const response = await ask('RUN sleep 25 && echo long > /long');
    await checkLooks(world.browser, addressOf(response), 'container-building', page =>
      page.locator('#build tr.running').waitFor(),
    );
  });
});
