/** The first page: a form that asks for a container, with packages of a real channel and a real registry. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertSuccess } from '../integration/served.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { requireAccessible, startBrowser, type TestBrowser } from './browser-world.ts';

suite('the form to ask for a container', () => {
  let browser: TestBrowser;
  let registry: Registry;
  let served: CondaChannels;
  let sluice: Sluice;
  let image: string;

  before(async () => {
    browser = await startBrowser();
    registry = await startRegistry();
    served = await startCondaChannels({
      'conda-forge': [
        program('procps-ng', '4.0'),
        library('1.2'),
        library('1.3'),
        ...Array.from({ length: 40 }, (_, at) => program(`samply-${at}`, '1')),
      ],
      bioconda: [
        program('samtools', '1.19', { depends: ['library >=1.2,<1.3'] }),
        program('samtools', '1.9'),
        program('samtools', '1.20', { depends: ['library >=1.3,<2'] }),
        program('bwa', '0.7.18'),
      ],
    });
    await pushDebianImage(registry, 'debian');
    image = `${registry.host}/debian:1`;
    sluice = await startSluice({
      config: {
        builds: { conda: 'native' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        channels: Object.fromEntries(
          ['conda-forge', 'bioconda'].map(name => [
            name,
            { url: `${served.url}/${name}`, allowPrivateAddress: true },
          ]),
        ),
      },
    });
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
    await served?.stop();
    await registry?.stop();
  });

  const at = (query: Record<string, string>) => `${sluice.url}/?${new URLSearchParams(query)}`;
  const planOf = (page: Page) => page.locator('#plan');

  test('packages are searched while typing, chosen, and pulled as an image', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(at({ by: 'packages', base: image }));
    await page.getByRole('searchbox', { name: 'Packages' }).pressSequentially('samto');
    await page.getByRole('button', { name: 'Versions of samtools' }).click();
    const versions = page.locator('.matches .add');
    await versions.first().waitFor();
    await page.getByRole('button', { name: 'Add samtools=1.20' }).waitFor();
    assert.deepEqual(
      (await versions.allTextContents()).map(text => text.replace('+', '').trim()),
      ['1.20', '1.19', '1.9'],
    );
    await page.getByRole('button', { name: 'Add samtools=1.20' }).click();
    await page.locator('.chip', { hasText: 'samtools=1.20' }).waitFor();
    await planOf(page).getByText('To be built').waitFor();
    await planOf(page).getByText('3 packages for linux/').click();
    await planOf(page).getByRole('cell', { name: 'library' }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('package'), 'samtools=1.20');
    await requireAccessible(page);

    await page.getByRole('button', { name: 'Get the container' }).click();
    await page.getByRole('heading', { name: 'Your container' }).waitFor();
    const name = (await page.locator('.copy pre').first().textContent()) ?? '';
    await page.getByText('Ready').waitFor();
    await requireAccessible(page);
    const root = await openRoot('forky');
    try {
      const ran = await runWithPodman(root, name, { command: ['samtools', 'view'] });
      assert.match(assertSuccess(ran), /^samtools 1\.20 view/);
    } finally {
      await root.close();
    }
  });
});
