/** The pages in Firefox: what they look like, and the way from a search to a container. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Browser, launch, type Page } from 'puppeteer-core';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { requireCommand } from '../world/tools.ts';
import {
  colourRules,
  nextFrame,
  requireAccessible,
  requireHints,
  widths,
} from './browser-world.ts';

// Long, so that a busy machine causes no failure.
const timeout = 120_000;

suite('firefox', () => {
  let registry: Registry;
  let channels: CondaChannels;
  let sluice: Sluice;
  let profiles: TempDir;
  /** Address of the page of a container that was requested. */
  let container = '';
  const problems: string[] = [];

  before(async () => {
    profiles = await makeTempDir('firefox');
    registry = await startRegistry();
    await pushDebianImage(registry, 'debian');
    channels = await startCondaChannels({
      'conda-forge': [program('procps-ng', '4.0'), library('1.3')],
      bioconda: [
        program('samtools', '1.19'),
        program('samtools', '1.20', { depends: ['library >=1.3,<2'] }),
      ],
    });
    sluice = await startSluice({
      config: {
        builds: { conda: 'native' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        channels: channels.settings,
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await channels?.stop();
    await registry?.stop();
    await profiles?.remove();
  });

  const startFirefox = (isDark: boolean): Promise<Browser> =>
    launch({
      browser: 'firefox',
      executablePath: requireCommand('firefox-esr'),
      userDataDir: profiles.join(isDark ? 'dark' : 'light'),
      extraPrefsFirefox: {
        'layout.css.prefers-color-scheme.content-override': isDark ? 0 : 1,
        'ui.prefersReducedMotion': 1,
      },
      timeout,
      protocolTimeout: timeout,
    });

  async function openTab(browser: Browser, path: string): Promise<Page> {
    const page = await browser.newPage();
    page.setDefaultTimeout(timeout);
    page.on('pageerror', error => problems.push(String(error)));
    page.on('console', message => {
      if (message.type() === 'error') problems.push(message.text());
    });
    await page.goto(new URL(path, sluice.url).href);
    return page;
  }

  async function checkWidths(page: Page, isDark: boolean): Promise<void> {
    const scheme = await page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches");
    assert.equal(scheme, isDark);
    for (const width of widths) {
      await page.setViewport({ width, height: 900 });
      await nextFrame(page);
      await requireAccessible(page, isDark ? colourRules : undefined);
      await requireHints(page);
    }
  }

  test('a package is searched, chosen with the keyboard and requested; no page reports an error', async () => {
    const browser = await startFirefox(false);
    try {
      const base = `${registry.host}/debian:1`;
      const page = await openTab(browser, `/?${new URLSearchParams({ by: 'packages', base })}`);
      await page.locator('#q').fill('samto');
      await page.locator('button[aria-label="Add samtools"]').wait();
      await checkWidths(page, false);
      await page.focus('#q');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Enter');
      await page.locator('.chip ::-p-text(samtools)').wait();
      await page.locator('#plan ::-p-text(To be built)').wait();
      await page.locator('button::-p-text(Get the container)').click();
      await page.locator('::-p-text(Ready)').wait();
      container = new URL(page.url()).pathname;
      assert.match(container, /^\/view\/containers\//);
      await checkWidths(page, false);
      for (const path of ['/', '/view/builds', `/view/inspect?image=${encodeURIComponent(base)}`]) {
        await page.goto(new URL(path, sluice.url).href);
        await checkWidths(page, false);
      }
      assert.deepEqual(problems, []);
    } finally {
      await browser.close();
    }
  });

  test('the pages can be read in the dark', async () => {
    const browser = await startFirefox(true);
    try {
      const page = await openTab(browser, '/');
      await checkWidths(page, true);
      await page.goto(new URL(container, sluice.url).href);
      await checkWidths(page, true);
      assert.deepEqual(problems, []);
    } finally {
      await browser.close();
    }
  });
});
