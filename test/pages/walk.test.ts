/** The walk of a newcomer: from an empty browser to a running container with packages, with the keyboard only. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertSuccess } from '../integration/served.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Docker, startDocker } from '../world/docker.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { keepPicture, requireAccessible, startBrowser, type TestBrowser } from './browser-world.ts';

const mostMs = 180_000;
// A person gives up when a button is further away.
const mostTabs = 20;

suite('the walk of a newcomer', () => {
  let browser: TestBrowser;
  let registry: Registry;
  let served: CondaChannels;
  let sluice: Sluice;
  let docker: Docker;

  before(async () => {
    [browser, registry, docker] = await Promise.all([
      startBrowser(),
      startRegistry(),
      startDocker({ suite: 'trixie' }),
    ]);
    await pushDebianImage(registry, 'library/ubuntu', '24.04');
    served = await startCondaChannels({
      'conda-forge': [program('procps-ng', '4.0'), library('1.3')],
      bioconda: [
        program('samtools', '1.19'),
        program('samtools', '1.20', { depends: ['library >=1.3,<2'] }),
        program('bwa', '0.7.18'),
        program('bwa-mem2', '2.2'),
      ],
    });
    // As it is after its installation, but for the places that this machine can reach.
    sluice = await startSluice({
      config: {
        access: { requests: 'open', builds: 'open', pulls: 'open' },
        limits: { builds: { anonymous: 'off' } },
        builds: { conda: 'native' },
        registries: {
          'docker.io': { mirrors: [registry.host] },
          [registry.host]: { plainHttp: true },
        },
        channels: served.settings,
      },
    });
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await docker?.stop();
    await sluice?.stop();
    await served?.stop();
    await registry?.stop();
  });

  /** Presses Tab until something with this name has the focus. */
  async function tabTo(page: Page, name: RegExp): Promise<void> {
    const passed: string[] = [];
    for (let count = 0; count < mostTabs; count += 1) {
      await page.keyboard.press('Tab');
      const focused = (await page.evaluate(
        `(({ ariaLabel, textContent, name }) => ariaLabel ?? (textContent.trim() || name || ''))(document.activeElement)`,
      )) as string;
      if (name.test(focused)) return;
      passed.push(focused);
    }
    assert.fail(`${name} is not within ${mostTabs} steps: ${passed.join(' | ')}`);
  }

  test('a container with two packages runs within three minutes, without a mouse', async () => {
    const begin = Date.now();
    await using tab = await browser.open();
    const { page, context } = tab;
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: sluice.url });

    await page.goto(sluice.url);
    await page.locator('#q:focus').waitFor();
    // Enter at once, before the list of matches is there.
    await keepPicture(page, 'walk-1-empty');
    await page.keyboard.type('samtools');
    await page.keyboard.press('Enter');
    await page.locator('.chip', { hasText: /^samtools/ }).waitFor();
    await page.locator('#q:focus').waitFor();
    await page.keyboard.type('bwa');
    await page.locator('.matches').getByText('bwa-mem2').waitFor();
    await keepPicture(page, 'walk-2-matches');
    await tabTo(page, /^Versions of bwa$/);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Add bwa=0.7.18' }).waitFor();
    await tabTo(page, /^Add bwa=0\.7\.18$/);
    await page.keyboard.press('Enter');
    await page.locator('.chip', { hasText: /^bwa=0\.7\.18/ }).waitFor();

    await page.locator('#plan').getByText('To be built').waitFor();
    await requireAccessible(page);
    await tabTo(page, /^Get the container$/);
    await keepPicture(page, 'walk-3-chosen');
    await page.keyboard.press('Enter');

    await page.getByRole('heading', { name: 'Use it' }).waitFor();
    await tabTo(page, /^Copy the command for Docker$/);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    await keepPicture(page, 'walk-4-copied');
    const command = (await page.evaluate('navigator.clipboard.readText()')) as string;
    assert.match(command, /^docker run --rm -it \S+$/);

    // A terminal, as people have one.
    const inTerminal = ['script', '--quiet', '--return', '--command', `${command} samtools view`];
    const ran = await docker.root.exec([...inTerminal, '/dev/null']);
    assert.match(assertSuccess(ran), /samtools 1\.20 view\r?$/m);
    await page.locator('#state').getByText('Ready').waitFor();
    await requireAccessible(page);
    assert.ok(Date.now() - begin < mostMs, `${Date.now() - begin} ms`);
  });
});
