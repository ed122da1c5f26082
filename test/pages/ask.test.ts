/** The first page: a form that asks for a container, with packages of a real channel and a real registry. */
import assert from 'node:assert/strict';
import { truncate, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { assertSuccess } from '../integration/served.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { boundMs } from '../world/longest-block.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { checkLooks, requireAccessible, startBrowser, type TestBrowser } from './browser-world.ts';

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
        program('damaged', '1'),
        program('damaged', '2'),
      ],
    });
    for (const path of served.files.keys()) {
      if (path.includes('/damaged-')) served.files.set(path, Buffer.from('damaged'));
    }
    await pushDebianImage(registry, 'debian');
    image = `${registry.host}/debian:1`;
    sluice = await startSluice({
      config: {
        builds: { conda: 'native' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        channels: served.settings,
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
    await page.getByRole('heading', { name: 'Use it' }).waitFor();
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

  test('without scripts the same form searches, shows the dry run, and asks', async () => {
    await using tab = await browser.open({ javaScript: false });
    const { page } = tab;
    await page.goto(at({ by: 'packages', base: image }));
    await page.getByRole('searchbox', { name: 'Packages' }).fill('bw');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('button', { name: 'Versions of bwa' }).click();
    await page.getByRole('button', { name: 'Add bwa=0.7.18' }).click();
    await page.getByRole('searchbox', { name: 'Packages' }).fill('samtools=1.19');
    await page.getByRole('searchbox', { name: 'Packages' }).press('Enter');
    await page.getByRole('button', { name: 'Remove samtools=1.19' }).click();
    assert.deepEqual(await page.locator('.chip code').allTextContents(), ['bwa=0.7.18']);
    await page.getByRole('button', { name: 'Show what it would do' }).click();
    await planOf(page).getByText('To be built').waitFor();
    assert.equal(new URL(page.url()).searchParams.get('package'), 'bwa=0.7.18');
    await page.getByRole('button', { name: 'Get the container' }).click();
    await page.getByRole('heading', { name: 'Use it' }).waitFor();
    await page.getByText(`docker run --rm -it ${sluice.host}/`).waitFor();
  });

  test('a package that was searched and not added is asked for', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(at({ by: 'packages', base: image }));
    await page.getByRole('searchbox', { name: 'Packages' }).fill('bwa');
    await page.getByRole('button', { name: 'Get the container' }).click();
    await page.getByRole('heading', { name: 'Use it' }).waitFor();
    await page.getByRole('heading', { name: /^Container builds:bwa-/ }).waitFor();
  });

  test('a browser without a login lists why the builds failed that it has started, and those alone', async () => {
    const { buildId: others } = (await sluice.request({
      packages: { type: 'CONDA', entries: ['damaged=1'], condaOpts: { baseImage: image } },
    })) as unknown as { buildId: string };
    await using tab = await browser.open({ mayFail: true });
    const { page } = tab;
    await page.goto(at({ by: 'packages', base: image, package: 'damaged=2' }));
    await page.getByRole('button', { name: 'Get the container' }).click();
    await page.getByText('Build failed').waitFor();
    await page.goto(`${sluice.url}/view/builds/${others}`);
    await page.getByText('Build failed').waitFor();
    await page.goto(`${sluice.url}/view/builds`);
    const rows = page.locator('#own-builds li', { hasText: 'failed' });
    await rows.nth(1).waitFor();
    await rows.locator('.why', { hasText: 'damaged-2' }).waitFor();
    assert.equal(await page.locator('.why').count(), 1);
    await requireAccessible(page);
  });

  test('the whole form is in the address, and an image has its changes', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(`${sluice.url}/`);
    await page.getByRole('link', { name: 'An image' }).click();
    await page.getByLabel('Image', { exact: true }).fill(image);
    await page.getByLabel('Environment variables').fill('ONE=1\nTWO=a b');
    await page.getByLabel('Entrypoint').fill(`/bin/sh -c 'echo "$ONE $TWO"; pwd'`);
    await page.getByLabel('Working directory').fill('/tmp');
    // The plan may still be that of the image alone.
    await page.waitForURL(url => [...url.searchParams.values()].includes('/tmp'));
    await planOf(page).getByText('The image exists').waitFor();
    const address = page.url();

    await using other = await browser.open();
    await other.page.goto(address);
    assert.equal(
      await other.page.getByLabel('Environment variables').inputValue(),
      'ONE=1\nTWO=a b',
    );
    await planOf(other.page).getByText('The image exists').waitFor();
    await other.page.getByRole('button', { name: 'Get the container' }).click();
    const name = (await other.page.locator('.copy pre').first().textContent()) ?? '';
    const root = await openRoot('forky');
    try {
      assert.equal(assertSuccess(await runWithPodman(root, name)), '1 a b\n/tmp\n');
    } finally {
      await root.close();
    }
  });

  test('a Singularity image is kept in a repository, and its page follows the build', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(at({ by: 'packages', package: 'bwa', base: image }));
    await page.getByLabel('Singularity image').check();
    await page.getByLabel('Repository').fill(`${registry.host}/sif`);
    await planOf(page).getByText('can be pushed to').waitFor();
    // Without a repository, a local server keeps it.
    await page.getByLabel('Repository').fill('');
    await planOf(page).getByText(`oras://${sluice.host}/public/sif:bwa--`).waitFor();
    await page.getByRole('button', { name: 'Get the container' }).click();
    await page
      .getByText(`apptainer pull --no-https image.sif oras://${sluice.host}/public/sif:bwa--`)
      .waitFor();
    await page.getByText('Ready').waitFor();
    await page.getByText('the name does not expire').waitFor();
  });

  test('a mistake is explained at its field, with and without scripts', async () => {
    const mistakes = [
      [{ by: 'image', image: 'Not An Image' }, 'image', /Image/],
      [
        { by: 'image', image, env: 'NOVALUE' },
        'env',
        /“Environment variables”, entry 1, is not of the form/,
      ],
      [
        { by: 'image', image, entrypoint: `sh -c 'open` },
        'entrypoint',
        /“Entrypoint” has an open quote/,
      ],
      [
        { by: 'packages', package: 'bwa', format: 'sif', repository: 'team' },
        'repository',
        /“Repository” is incomplete/,
      ],
      [{ by: 'packages', package: 'no&such' }, 'package', /is not a conda package/],
      [{ by: 'dockerfile', dockerfile: 'RUN true' }, 'dockerfile', /FROM/],
      [{ by: 'packages', package: 'absent', base: image }, 'package', /No candidates .* absent/],
    ] as const;
    await using tab = await browser.open();
    for (const [form, field, text] of mistakes) {
      await tab.page.goto(at(form));
      const place = tab.page.locator(`#${field}-problem .failure`);
      await place.waitFor();
      assert.match((await place.textContent()) ?? '', text);
      const plain = await fetch(at({ ...form, plan: '1' }), { headers: { accept: 'text/html' } });
      assert.equal(plain.status, 400);
      const html = await plain.text();
      assert.match(
        html,
        new RegExp(`id="${field}-problem" class="field-problem"><p class="failure"`),
      );
    }
  });

  test('a Dockerfile that is too long for an address is still checked', async () => {
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(at({ by: 'dockerfile' }));
    await page
      .getByLabel('Dockerfile', { exact: true })
      .fill(`FROM ${image}\n${`# ${'x'.repeat(8000)}`}`);
    await page.getByText('The form is too long for an address').waitFor();
    assert.equal(new URL(page.url()).search, '?by=dockerfile');
    // This server has no builder, which the dry run says before anybody asks.
    await planOf(page).getByText('This server has no builder').waitFor();
    await page.getByLabel('Dockerfile', { exact: true }).fill(`FROM ${image}`);
    await page.getByText('The address of this page holds the whole form').waitFor();
  });

  test('a file is chosen or dropped, read in the browser, and checked', async () => {
    await using directory = await makeTempDir('ask-file');
    const path = directory.join('environment.yml');
    const file = 'channels: [conda-forge, bioconda]\ndependencies:\n  - samtools=1.9\n';
    await writeFile(path, file);
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(at({ by: 'file', base: image }));
    const area = page.getByLabel('Environment file');
    await page.getByLabel('Or choose a file').setInputFiles(path);
    await planOf(page).getByText('To be built').waitFor();
    await planOf(page)
      .getByText(/^\d packages? for linux\//)
      .click();
    await planOf(page).getByRole('cell', { name: 'samtools' }).waitFor();
    assert.equal(await area.inputValue(), file);
    await requireAccessible(page);

    // On another form, and longer than an address: the server shows the form of the file.
    await page.goto(at({ by: 'packages', base: image }));
    const long = `${file}# ${'x'.repeat(8000)}\n`;
    await drop(page, [['requirements <img src=x onerror=alert(1)>.txt', long]]);
    await area.waitFor();
    assert.equal(await area.inputValue(), long);
    await page.goto(at({ by: 'file', base: image }));
    await drop(page, [['Dockerfile', `FROM ${image}\n`]]);
    await page.getByLabel('Dockerfile', { exact: true }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('dockerfile'), `FROM ${image}\n`);
  });

  test('a file that cannot be taken is refused with its reason, and its name stays a text', async () => {
    await using directory = await makeTempDir('ask-files');
    const large = directory.join('large.yml');
    await writeFile(large, '');
    await truncate(large, 100 * 1024 * 1024);
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(at({ by: 'file' }));
    const said = page.locator('#file-problem .failure');
    const began = performance.now();
    await page.getByLabel('Or choose a file').setInputFiles(large);
    await said.getByText('large.yml has 102,400 KiB. This page accepts at most 256 KiB').waitFor();
    assert.ok(performance.now() - began < boundMs(5000));
    const hostile = '<img src=x onerror=alert(1)>.yml';
    for (const [content, reason] of [
      ['', 'is empty'],
      ['a\0b', 'is not a text file'],
      [null, 'is not a text in UTF-8'],
    ] as const) {
      await drop(page, [[hostile, content]]);
      await said.getByText(`${hostile} ${reason}`).waitFor();
    }
    await drop(page, [
      ['one.yml', 'a'],
      ['two.yml', 'b'],
    ]);
    await said.getByText('Drop one file').waitFor();
    assert.equal(await page.locator('#ask img').count(), 0);
    assert.equal(await page.getByLabel('Environment file').inputValue(), '');
  });

  test('without scripts the text of a file is pasted, and wrong ones are explained at the field', async () => {
    await using tab = await browser.open({ javaScript: false, mayFail: true });
    const { page } = tab;
    await page.goto(at({ by: 'file', base: image }));
    assert.equal(await page.getByLabel('Or choose a file').isVisible(), false);
    const area = page.getByLabel('Environment file');
    await area.fill('dependencies:\n  - nothing-like-this\n');
    await page.getByRole('button', { name: 'Get the container' }).click();
    await page.locator('#environment-problem').getByText('nothing-like-this').waitFor();
    await area.fill('dependencies:\n  - bwa\nchannels: [conda-forge, bioconda]\n');
    await page.getByRole('button', { name: 'Get the container' }).click();
    await page.waitForURL(/\/view\/containers\//);
  });

  test('hostile texts stay texts', async () => {
    const texts = [
      '<script>alert(1)</script>',
      `"><img src=x onerror=alert(1)>'`,
      '\u202e\u0007\u0000gnp.exe',
      '</textarea><script>alert(1)</script>',
      'x'.repeat(3000),
    ];
    await using tab = await browser.open();
    const { page } = tab;
    let dialogs = 0;
    page.on('dialog', dialog => {
      dialogs += 1;
      return dialog.dismiss();
    });
    for (const text of texts) {
      for (const [by, field] of [
        ['image', 'image'],
        ['image', 'env'],
        ['packages', 'package'],
        ['packages', 'q'],
        ['packages', 'channels'],
        ['dockerfile', 'dockerfile'],
        ['file', 'environment'],
      ] as const) {
        await page.goto(at({ by, [field]: text, ...(field === 'env' ? { image } : {}) }));
        await page.locator('#ask').waitFor();
        assert.equal(await page.locator('#ask script, #ask img').count(), 0);
      }
    }
    assert.equal(dialogs, 0);
  });

  test('typing does not use up the right to ask, and each limit is explained', async () => {
    await using limited = await startSluice({
      config: {
        limits: { requests: { anonymous: '2/hour' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const form = new URLSearchParams({ by: 'image', image });
    const post = async (path: string, more: Record<string, string> = {}) => {
      const body = new URLSearchParams([...form, ...Object.entries(more)]);
      const response = await limited.fetch(path, { method: 'POST', body, redirect: 'manual' });
      return { status: response.status, text: await response.text() };
    };
    for (let typed = 0; typed < 20; typed += 1) {
      assert.match((await post('/view/ask/plan')).text, /The image exists/);
    }
    assert.match((await post('/view/ask/plan')).text, /limit of 20 dry runs and searches/);
    assert.equal((await post('/', { do: 'ask' })).status, 303);
    assert.equal((await post('/', { do: 'ask' })).status, 303);
    const { status, text } = await post('/', { do: 'ask' });
    assert.equal(status, 429);
    assert.match(text, /limit of 2 container requests per hour is reached/);
  });

  test('a server that requires a login says so, and links to it', async () => {
    await using closed = await startSluice({ config: { access: { requests: 'login' } } });
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(`${closed.url}/?by=image&image=${image}`);
    await page.locator('#plan').getByText('requires a login').waitFor();
    assert.equal(
      await page.locator('#plan').getByRole('link', { name: 'Log in' }).getAttribute('href'),
      `/view/login?to=${encodeURIComponent(`/?${new URLSearchParams({ by: 'image', image })}`)}`,
    );
    const body = new URLSearchParams({ by: 'image', image, do: 'ask' });
    const response = await closed.fetch('/', { method: 'POST', body, redirect: 'manual' });
    assert.equal(response.status, 401);
    assert.match(await response.text(), /requires a login on this server/);
    assert.equal(response.headers.get('www-authenticate'), null);
  });

  test('a form of another site and a body of a program are refused', async () => {
    const body = new URLSearchParams({ by: 'image', image, do: 'ask' });
    const foreign = { origin: 'https://evil.example' };
    const refused = await sluice.fetch('/', { method: 'POST', body, headers: foreign });
    assert.equal(refused.status, 403);
    const json = { 'content-type': 'application/json' };
    const program = await sluice.fetch('/', { method: 'POST', body: '{}', headers: json });
    assert.equal(program.status, 415);
    const large = new URLSearchParams({ dockerfile: 'x'.repeat(2_000_000) });
    const response = await sluice.fetch('/view/ask/plan', { method: 'POST', body: large });
    assert.equal(response.status, 413);
  });

  test('the first view is light', async () => {
    const page = await sluice.fetch('/', { headers: { accept: 'text/html' } });
    const text = await page.text();
    let bytes = Number(page.headers.get('content-length'));
    for (const [, address] of text.matchAll(/(?:src|href)="([^"]+\.(?:js|css))"/g)) {
      const file = await sluice.fetch(address ?? '');
      bytes += Number(file.headers.get('content-length'));
      await file.arrayBuffer();
    }
    assert.ok(bytes > 1000 && bytes < 100_000, `${bytes} bytes`);
  });

  test('every way to ask can be read at every width, light and dark', async () => {
    const packages = new URLSearchParams([
      ['by', 'packages'],
      ['package', 'samtools=1.20'],
      ['package', 'bwa'],
      ['base', image],
      ['q', 'sam'],
    ]);
    await checkLooks(browser, `${sluice.url}/?${packages}`, 'ask-packages', async page => {
      await page.getByText('To be built').waitFor();
    });
    await checkLooks(browser, at({ by: 'image', image, env: 'WRONG' }), 'ask-image', page =>
      page.locator('#env-problem .failure').waitFor(),
    );
    await checkLooks(
      browser,
      at({ by: 'dockerfile', dockerfile: `FROM ${image}`, format: 'sif', repository: 'team' }),
      'ask-dockerfile',
      page => page.locator('#repository-problem .failure').waitFor(),
    );
    const { requestId } = await sluice.request({ containerImage: image });
    await checkLooks(browser, `${sluice.url}/view/containers/${requestId}`, 'container-asked');
  });
});

/**
 * Drops files on a page, as a desktop does.
 *
 * @param files names and texts; `null` stands for bytes that are not UTF-8
 */
async function drop(page: Page, files: readonly (readonly [string, string | null])[]) {
  await page.evaluate(`{
    const dataTransfer = new DataTransfer();
    for (const [name, text] of ${JSON.stringify(files)}) {
      dataTransfer.items.add(new File([text ?? new Uint8Array([0xff, 0xfe])], name));
    }
    for (const kind of ['dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
    }
  }`);
}
