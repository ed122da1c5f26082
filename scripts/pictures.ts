/**
 * Takes the pictures in docs/pictures: `npm run pictures`. They show a real server with a real registry, real Conda
 * packages made here, and names of a public address, so that they look the same on every machine.
 */
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { startBrowser } from '../test/pages/browser-world.ts';
import { startShownServer, summaries } from './shown-world.ts';

const folder = fileURLToPath(new URL('../docs/pictures/', import.meta.url));

await using shown = await startShownServer({
  url: 'https://containers.example.org',
  access: { requests: 'open', builds: 'open', pulls: 'open' },
  limits: { builds: { anonymous: 'off' } },
});
const { sluice } = shown;
await using browser = await startBrowser();
await using tab = await browser.open({ width: 1100 });
const { page } = tab;
await mkdir(folder, { recursive: true });

await page.goto(`${sluice.url}/?${new URLSearchParams({ by: 'packages', package: 'bwa=0.7.18' })}`);
await page.locator('#plan').getByText('To be built').waitFor();
await page.getByRole('searchbox').pressSequentially('sam');
await page.locator('.matches').getByText(summaries.samtools).waitFor();
await picture(page, 'ask');

const { buildId } = (await sluice.request({
  packages: { type: 'CONDA', entries: ['samtools=1.21', 'bwa=0.7.18'] },
})) as unknown as { buildId: string };
await page.goto(`${sluice.url}/view/builds/${buildId}`);
await page.getByText('succeeded').first().waitFor();
await page.reload();
await picture(page, 'build');

async function picture(of: Page, name: string): Promise<void> {
  await of.screenshot({ path: `${folder}${name}.png`, animations: 'disabled', caret: 'hide' });
  console.log(`${folder}${name}.png`);
}
