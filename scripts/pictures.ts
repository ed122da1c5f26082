/**
 * Takes the pictures in docs/pictures: `npm run pictures`. They show a real server with a real registry, real Conda
 * packages made here, and names of a public address, so that they look the same on every machine.
 */
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { startBrowser } from '../test/pages/browser-world.ts';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import { program } from '../test/world/conda-programs.ts';
import { pushDebianImage } from '../test/world/debian-image.ts';
import { startRegistry } from '../test/world/registry.ts';
import { startSluice } from '../test/world/sluice.ts';

const folder = fileURLToPath(new URL('../docs/pictures/', import.meta.url));

await using registry = await startRegistry();
await pushDebianImage(registry, 'library/ubuntu', '24.04');
await using channels = await startCondaChannels({
  'conda-forge': [
    program('procps-ng', '4.0.4'),
    ...['zlib 1.3.1', 'libdeflate 1.22', 'htslib 1.21', 'ncurses 6.5', 'libcurl 8.11.1'].map(
      text => {
        const [name = '', version = ''] = text.split(' ');
        return program(name, version);
      },
    ),
  ],
  bioconda: [
    program('samtools', '1.20', { depends: ['htslib', 'ncurses', 'zlib'] }),
    program('samtools', '1.21', { depends: ['htslib', 'ncurses', 'zlib', 'libdeflate'] }),
    program('bwa', '0.7.18', { depends: ['zlib'] }),
  ],
});
const summaries = {
  samtools: 'Tools for dealing with SAM, BAM and CRAM files',
  bwa: 'The BWA read mapper.',
};
const newest = { samtools: '1.21', bwa: '0.7.18' };
const described = Object.entries(summaries).map(([name, summary]) => [
  name,
  { summary, version: newest[name as keyof typeof newest] },
]);
channels.files.set(
  '/bioconda/channeldata.json',
  Buffer.from(JSON.stringify({ packages: Object.fromEntries(described) })),
);
await using sluice = await startSluice({
  config: {
    url: 'https://containers.example.org',
    access: { requests: 'open', builds: 'open', pulls: 'open' },
    builds: { conda: 'native' },
    limits: { builds: { anonymous: 'off' } },
    registries: {
      'docker.io': { mirrors: [registry.host] },
      [registry.host]: { plainHttp: true },
    },
    channels: channels.settings,
  },
});
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
