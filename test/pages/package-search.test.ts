/** The search for packages on the first page, in channels of all kinds. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { program } from '../world/conda-programs.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { startScriptedChannel } from '../world/scripted-channel.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { requireUv } from '../world/tools.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const evilRecord = { name: 'evil', build: '0', build_number: 0, depends: [] };
/** Repository data of a channel that wants to run scripts in pages. */
const evilData = {
  info: { subdir: 'noarch' },
  packages: {},
  'packages.conda': {
    'a.conda': { ...evilRecord, version: '1.0', size: '<script>alert(1)</script>' },
    'b.conda': { ...evilRecord, version: '"><script>alert(1)</script>' },
    'c.conda': { ...evilRecord, version: 'x'.repeat(10_000) },
    'd.conda': { ...evilRecord, name: 'evil<script>alert(1)</script>', version: '1' },
    'e.conda': { ...evilRecord, name: 'evil\u202egnp', version: '1' },
    'f.conda': { ...evilRecord, name: 'evil-two', version: '1' },
  },
};
/** Its descriptions, which also want to fill the page. */
const evilDescriptions = {
  channeldata_version: 1,
  packages: {
    evil: {
      summary: `<script>alert(1)</script>"'\u202e\u0007\u0000&\n\t${'x'.repeat(10_000)}`,
      version: '"><script>alert(1)</script>',
    },
    'evil-two': { summary: { toString: 1 }, version: 7 },
    'evil<script>': { summary: 'x', version: '1' },
  },
};
const descriptions = {
  packages: {
    samtools: { summary: 'Tools for alignments in the SAM format', version: '1.20' },
    bwa: { summary: 'An aligner\nfor   short reads', version: '0.7.18' },
  },
};

suite('the search for packages', () => {
  let browser: TestBrowser;
  let served: CondaChannels;
  let sluice: Sluice;

  const channelsAt = (urls: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      Object.entries(urls).map(([name, url]) => [name, { url, allowPrivateAddress: true }]),
    );
  const search = (server: Sluice, query: Record<string, string>) =>
    `${server.url}/?${new URLSearchParams(query)}`;

  before(async () => {
    browser = await startBrowser();
    served = await startCondaChannels({
      'conda-forge': Array.from({ length: 40 }, (_, at) => program(`samply-${at}`, '1')),
      bioconda: [
        program('samtools', '1.19'),
        program('samtools', '1.20'),
        program('bwa', '0.7.18'),
      ],
    });
    const put = (path: string, data: object) =>
      served.files.set(path, Buffer.from(JSON.stringify(data)));
    put('/bioconda/channeldata.json', descriptions);
    put('/evil/noarch/repodata.json', evilData);
    put('/evil/channeldata.json', evilDescriptions);
    const names = ['conda-forge', 'bioconda', 'evil', 'missing'];
    const wheel = (version: string) =>
      `<a href="/files/samtools-${version}-py3-none-any.whl#sha256=${'a'.repeat(64)}">x</a>`;
    const sources = '<a href="/files/samtools-3.0.tar.gz">x</a>';
    served.files.set(
      '/simple/samtools/',
      Buffer.from(`<title>Links for samtools</title>${wheel('0.9')}${wheel('0.10')}${sources}`),
    );
    sluice = await startSluice({
      config: {
        builds: { uv: requireUv() },
        pypi: {
          'https://pypi.org/simple': { url: `${served.url}/simple`, allowPrivateAddress: true },
        },
        channels: channelsAt({
          ...Object.fromEntries(names.map(name => [name, `${served.url}/${name}`])),
          down: `http://127.0.0.1:${await freePort()}/down`,
        }),
      },
    });
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
    await served?.stop();
  });

  test('a match has its description, newest version, channel and platforms, versions their size', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(search(sluice, { by: 'packages' }));
    await page.locator('#q:focus').waitFor();
    await page.keyboard.type('samto');
    const match = page.locator('.matches li', { hasText: 'Tools for alignments in the SAM' });
    await match.getByText(/^1\.20 · bioconda · (?:amd64|arm64)$/).waitFor();
    await match.getByRole('button', { name: 'Versions of samtools' }).click();
    await page.locator('.matches li', { hasText: /1\.19\s+bioconda · \w+ · [\d.]+ k?B/ }).waitFor();
    await page.getByText('Tools for alignments in the SAM format').waitFor();
    await checkLooks(browser, search(sluice, { q: 'sam' }), 'search', page =>
      page.getByText('Tools for alignments').waitFor(),
    );
  });

  test('the Python package of the name is beside those of Conda, without JavaScript too', async () => {
    const pageOf = async (query: Record<string, string>) =>
      (await fetch(search(sluice, query))).text();
    const rowOf = (page: string) => page.split('<li>').find(row => row.includes('>PyPI<')) ?? '';
    let row = '';
    await eventually('the index has answered', async () => {
      row = rowOf(await pageOf({ q: 'SamTools' }));
      return row !== '';
    });
    assert.match(
      row,
      /value="pip:samtools".*3\.0 · no wheel.*name="versions" value="pip:samtools"/s,
    );
    const versions = await pageOf({ versions: 'pip:samtools' });
    const values = [...versions.matchAll(/name="add" value="([^"]+)"/g)].map(([, it]) => it);
    assert.deepEqual(values, ['pip:samtools==3.0', 'pip:samtools==0.10', 'pip:samtools==0.9']);
    assert.match(versions, /PyPI · no wheel: requires a builder/);
    assert.equal(rowOf(await pageOf({ q: 'samtool' })), '', 'a part of a name');
    assert.match(await pageOf({ q: 'samtols' }), /in its name\. Did you mean samtools\?/);
    // A package of Conda stays beside one of PyPI with the same name, and another version replaces the first.
    const form = new URLSearchParams({ by: 'packages', add: 'pip:samtools==0.9' });
    for (const one of ['samtools', 'pip:samtools==0.10', 'pip:idna']) form.append('package', one);
    const answer = await fetch(`${sluice.url}/`, {
      method: 'POST',
      body: form,
      redirect: 'manual',
    });
    const chosen = new URL(answer.headers.get('location') ?? '', sluice.url).searchParams;
    assert.deepEqual(chosen.getAll('package'), ['samtools', 'pip:idna', 'pip:samtools==0.9']);
  });

  test('programs find the Python package, too', async () => {
    const run = (...args: string[]) =>
      sluiceCommand(['search', ...args], { SLUICE_SERVER: sluice.url });
    const found = await run('SamTools', '--channel', 'bioconda');
    assert.match(found.stdout, /^samtools +1\.20 +bioconda +Tools for alignments/m, found.stderr);
    assert.match(
      found.stdout,
      /^pip:samtools +3\.0 +PyPI +no wheel for Linux: a builder makes one$/m,
    );
    const listed = await run('pip:samtools', '--versions');
    assert.match(listed.stdout, /^3\.0 +PyPI +no wheel[^\n]+\n0\.10 +PyPI *\n0\.9 +PyPI *\n$/m);
    const none = await run('pip:nothing-of-this-name', '--versions');
    assert.deepEqual([none.code, none.stdout], [1, '']);
    assert.match(none.stderr, /^No package is called 'pip:nothing-of-this-name'/);
  });

  test('the arrow keys go through what was found, and back to the field', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(search(sluice, { q: 'samtools' }));
    await page.getByRole('button', { name: 'Add samtools', exact: true }).waitFor();
    await page.getByRole('searchbox').fill('sam');
    await page.locator('.matches li').nth(2).waitFor();
    const focused = (number: number) =>
      page.locator('.matches .add').nth(number).and(page.locator(':focus'));
    await page.keyboard.press('ArrowDown');
    await focused(0).waitFor();
    await page.keyboard.press('ArrowDown');
    await focused(1).waitFor();
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    await page.locator('#q:focus').waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Escape');
    await page.locator('#q:focus').waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.locator('#chosen .chip').waitFor();
  });

  test('the data of the channels is fetched while somebody is still writing', async () => {
    await using fresh = await startSluice({
      config: { channels: channelsAt({ bioconda: `${served.url}/bioconda` }) },
    });
    const earlier = served.requests.length;
    await using tab = await browser.open();
    await tab.page.goto(search(fresh, { channels: 'bioconda' }));
    await tab.page.locator('#q:focus').waitFor();
    while (!served.requests.slice(earlier).includes('/bioconda/channeldata.json')) {
      await tab.page.waitForTimeout(20);
    }
    assert.equal(await tab.page.locator('#q').inputValue(), '');
  });

  test('a slow channel holds up nothing: the others answer at once, and it follows by itself', async t => {
    const held = Promise.withResolvers<void>();
    const slow = await startScriptedChannel(t, ({ url }, response) => {
      const data = url.endsWith('repodata.json') ? served.files.get(`/bioconda${url}`) : undefined;
      return data && held.promise.then(() => void response.end(data));
    });
    await using other = await startSluice({
      config: { channels: channelsAt({ bioconda: `${served.url}/bioconda`, slow: slow.url }) },
    });
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(search(other, { channels: 'bioconda slow' }));
    await page.getByRole('searchbox', { name: 'Packages' }).pressSequentially('samtools');
    await page.getByRole('button', { name: 'Add samtools', exact: true }).waitFor();
    await page.getByText('fetching the list of packages of slow').waitFor();
    await using plain = await browser.open({ javaScript: false });
    await plain.page.goto(search(other, { channels: 'bioconda slow', q: 'samtools' }));
    await plain.page.getByText('fetching the list of packages of slow').waitFor();
    held.resolve();
    await page.locator('.matches .about', { hasText: 'bioconda, slow' }).waitFor();
    assert.equal(await page.locator('[data-late]').count(), 0);
    await plain.page.locator('.matches .about', { hasText: 'bioconda, slow' }).waitFor();
  });

  test('descriptions may be packed, and damaged ones leave a search without them', async t => {
    const packed = gzipSync(JSON.stringify(descriptions));
    const channel = await startScriptedChannel(t, ({ url }, response) => {
      const [, name, file] = /^\/(whole|damaged)(\/.*)$/.exec(url) ?? [];
      if (file !== '/channeldata.json') return served.files.get(`/bioconda${file}`);
      response.setHeader('content-encoding', 'gzip');
      return name === 'whole' ? packed : packed.subarray(0, 40);
    });
    await using other = await startSluice({
      config: {
        channels: channelsAt({ whole: `${channel.url}/whole`, damaged: `${channel.url}/damaged` }),
      },
    });
    await using tab = await browser.open();
    await tab.page.goto(search(other, { channels: 'whole', q: 'bwa' }));
    await tab.page.locator('.matches').getByText('An aligner for short reads').waitFor();
    await tab.page.goto(search(other, { channels: 'damaged', q: 'bwa' }));
    await tab.page
      .locator('.matches:not([data-more])')
      .getByText(/^damaged · (?:amd64|arm64)$/)
      .waitFor();
    assert.equal(await tab.page.getByText('An aligner').count(), 0);
  });

  test('texts of a hostile channel stay texts', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    let dialogs = 0;
    page.on('dialog', dialog => {
      dialogs += 1;
      return dialog.dismiss();
    });
    await page.goto(search(sluice, { channels: 'evil', q: 'evil' }));
    const abouts = page.locator('.matches .about');
    await abouts.filter({ hasText: '<script>alert(1)' }).waitFor();
    assert.equal(await page.locator('.matches .add').count(), 2);
    for (const text of await abouts.allInnerTexts()) {
      assert.doesNotMatch(text, /\p{Cc}(?<!\n)|\u202e/u);
      assert.ok(text.length < 400, `${text.length} characters`);
    }
    await page.getByRole('button', { name: 'Versions of evil', exact: true }).click();
    await page.getByRole('button', { name: 'Add evil=1.0' }).waitFor();
    assert.equal(await page.locator('.matches .add').count(), 1);
    assert.equal(await page.locator('#ask script, #ask img').count(), 0);
    assert.equal(dialogs, 0);
  });

  test('a channel that is down, closed or missing leaves a sentence, and the others answer', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    const channels = `down bioconda ${served.url}/private missing`;
    let sentences: string[] = [];
    // A search answers after a second, with what it has by then.
    await eventually('each channel has answered', async () => {
      await page.goto(search(sluice, { channels, q: 'samtools' }));
      await page.getByRole('button', { name: 'Add samtools', exact: true }).waitFor();
      sentences = await page.locator('#found .failure').allTextContents();
      return sentences.length === 3;
    });
    assert.ok(sentences.some(text => /closed network address/.test(text)));
    assert.ok(sentences.some(text => /missing has no packages for Linux/.test(text)));
    assert.equal(
      served.requests.some(path => path.startsWith('/private/')),
      false,
    );
  });
});
