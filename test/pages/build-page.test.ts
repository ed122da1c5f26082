/** The page of a build: real builds on a real BuildKit, watched in a real browser. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { assertSuccess } from '../integration/served.ts';
import { hello, library, program } from '../world/conda-programs.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { checkLooks, requireAccessible } from './browser-world.ts';
import { type BuildWorld, startBuildWorld } from './build-world.ts';

const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } };
const hostile = `<script>alert("1")</script>'"\u202e`;

suite('the page of a build', () => {
  let world: BuildWorld;

  before(async () => {
    world = await startBuildWorld({
      packages: {
        'conda-forge': [program('procps-ng', '4.0'), library('1.3'), hello],
        bioconda: [
          program('samtools', '1.20', { depends: ['library >=1.3,<2'] }),
          program('bwa', '0.7.18'),
        ],
      },
      config: { accounts: { admin: 'secret' } },
    });
  });
  after(() => world?.stop());

  const html = async (path: string) => (await world.sluice.fetch(path, asBrowser)).text();

  test('a build is watched from its first step to its image, without a reload', async () => {
    await using tab = await world.browser.open();
    const { page } = tab;
    const id = await world.build(
      `FROM ${world.base} AS one\nRUN sleep 2; echo from one > /one\nFROM ${world.base}\nRUN sleep 3; echo ${'x'.repeat(30)}\nCOPY --from=one /one /one\nRUN for i in 1 2 3; do echo line $i; sleep 1; done\nCMD ["cat", "/one"]\n`,
    );
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    await page.locator('.steps tr.running').first().waitFor();
    assert.match(await page.title(), /^Running: build of builds:\w+ · Sluice$/);
    await page.locator('.line', { hasText: 'line 1' }).waitFor();
    await page.locator('#state .badge.good', { hasText: 'succeeded' }).waitFor();
    assert.match(await page.title(), /^Succeeded: build of builds:\w+ · Sluice$/);
    await page.locator('.line', { hasText: 'The build succeeded' }).waitFor();
    await page.locator('#cancel').waitFor({ state: 'detached' });
    assert.match((await page.locator('#state dl').textContent()) ?? '', /sha256:[0-9a-f]{64}/);
    const rows = page.locator('.recipe tbody tr');
    assert.match((await rows.nth(3).textContent()) ?? '', /RUN sleep 3.*\d s/);
    assert.match((await rows.nth(5).textContent()) ?? '', /RUN for.*\d B/);
    const bars = await page.locator('.steps rect.done').count();
    assert.ok(bars >= 5, `${bars} bars`);
    await checkLooks(world.browser, `${world.sluice.url}/view/builds/${id}`, 'build');
  });

  test('a failed build says why first, and marks the line', async () => {
    const id = await world.build(
      `FROM ${world.base}\nRUN echo fine\nRUN echo '${hostile.replaceAll("'", '')}' >&2; exit 3\n`,
    );
    await world.finished(id);
    const path = `/view/builds/${id}`;
    await using tab = await world.browser.open();
    await tab.page.goto(world.sluice.url + path);
    const failure = await tab.page.locator('.failure').textContent();
    assert.match(failure ?? '', /ended with exit code 3 \(Dockerfile, line 3\)/);
    assert.match((await tab.page.locator('.recipe tr.failed').textContent()) ?? '', /^3RUN echo/);
    assert.equal(await tab.page.locator('.steps tr.failed').count(), 1);
    assert.ok(!(await html(path)).includes('<script>alert'));
    await checkLooks(world.browser, world.sluice.url + path, 'build-failed');
    const headers = { authorization: `Basic ${btoa('admin:secret')}` };
    await using list = await world.browser.open({ headers, width: 360 });
    await list.page.goto(`${world.sluice.url}/view/builds?state=failed`);
    const why = await list.page.locator('#builds .why').first().textContent();
    assert.match(why ?? '', /ended with exit code 3 \(Dockerfile, line 3\)/);
    await requireAccessible(list.page);
  });

  test('the download of a package is a bar, above the commands too, with scripts and without', async () => {
    const { channels } = world;
    assert.ok(channels);
    const path = [...channels.files.keys()].find(one => one.includes('/bwa-')) ?? '';
    const free = Promise.withResolvers<void>();
    channels.held.set(path, free.promise);
    const { buildId = '', containerToken } = await world.sluice.request({
      packages: {
        ...{ type: 'CONDA', entries: ['bwa'], channels: ['conda-forge', 'bioconda'] },
        condaOpts: { baseImage: `${world.registry.host}/debian:1` },
      },
    });
    try {
      await using tab = await world.browser.open();
      await using plain = await world.browser.open({ javaScript: false, width: 360 });
      for (const address of [`/view/containers/${containerToken}`, `/view/builds/${buildId}`]) {
        for (const { page } of [tab, plain]) {
          await page.goto(world.sluice.url + address);
          const row = page.locator('.progress li', { hasText: 'download bwa' });
          await row.getByText(/\b(?:49|50) % · .* of .* · \d+ s/).waitFor();
          assert.match((await row.locator('progress').getAttribute('value')) ?? '', /^(49|50)$/);
        }
        await requireAccessible(tab.page);
      }
      await checkLooks(world.browser, `${world.sluice.url}/view/builds/${buildId}`, 'progress');
      free.resolve();
      await tab.page.locator('#state .badge.good', { hasText: 'succeeded' }).waitFor();
      assert.equal(await tab.page.locator('.progress').count(), 0);
    } finally {
      free.resolve();
      channels.held.clear();
    }
  });

  test('a native build of Conda packages shows its phases, its lock files and bills', async () => {
    const response = await world.sluice.request({
      packages: {
        ...{ type: 'CONDA', entries: ['samtools'], channels: ['conda-forge', 'bioconda'] },
        condaOpts: { baseImage: `${world.registry.host}/debian:1` },
      },
    });
    const { buildId: id = '' } = response;
    await world.finished(id);
    await using tab = await world.browser.open();
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    const steps = await page.locator('.steps .name').allTextContents();
    assert.deepEqual(steps.slice(0, 1), ['#1 Solve the packages']);
    assert.match(steps[1] ?? '', /^#2 Fetch \d packages and make their layers$/);
    assert.equal(steps[2], '#3 Push the image');
    assert.match((await page.locator('.recipe').textContent()) ?? '', /samtools/);
    const links = page.locator('#state dl a');
    const addresses = await links.evaluateAll(all =>
      all.map(link => link.getAttribute('href') ?? ''),
    );
    assert.equal(addresses.length, 5);
    for (const address of addresses) assert.equal((await world.sluice.fetch(address)).status, 200);
    const again = await page.getByRole('link', { name: 'Build again' }).getAttribute('href');
    assert.equal(new URL(again ?? '', world.sluice.url).searchParams.get('package'), 'samtools');
  });

  test('a Singularity image shows its definition file as it was sent, and its steps', async () => {
    const text = `Bootstrap: docker\nFrom: ${world.base}\n\n%post\n    echo made for {{ WHO }} > /made\n\n%runscript\n    cat /made\n`;
    const response = await world.sluice.request({
      containerFile: Buffer.from(text).toString('base64'),
      ...{ format: 'sif', freeze: true, buildRepository: `${world.registry.host}/sif/made` },
      buildArgs: { WHO: 'tests' },
    });
    const { buildId: id = '' } = response;
    const log = await world.finished(id);
    assert.match(log, /^#\d+ Make the Singularity image$/m);
    assert.match(log, /^#\d+ [\d.]+ made the SIF file, [\d.]+ \w+, in /m);
    await using tab = await world.browser.open();
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    const names = await page.locator('.steps .name').allTextContents();
    const own = names.slice(-3).map(name => name.replace(/^#\d+ /, ''));
    assert.deepEqual(own, [
      'Set the dates of files',
      'Make the Singularity image',
      'Push the Singularity image',
    ]);
    assert.equal((await page.locator('.steps tr.done[data-step]').count()) >= 5, true);
    const rows = page.locator('.recipe tbody tr');
    assert.match((await rows.nth(3).textContent()) ?? '', /^4%post\d.* m?s$/);
    assert.match((await rows.nth(4).textContent()) ?? '', /echo made for \{\{ WHO \}\}/);
    await page.getByText('The Dockerfile that this server made of it').click();
    await page.locator('#recipe details[open] pre', { hasText: '/dev/sluice/prepare' }).waitFor();
    // Steps that run at the same time are in the order of their starts.
    const numbers = names.map(name => Number(/^#(\d+)/.exec(name)?.[1]));
    assert.deepEqual(
      numbers.toSorted((one, other) => one - other),
      names.map((_, at) => at + 1),
      'all steps are counted together',
    );
    await checkLooks(world.browser, `${world.sluice.url}/view/builds/${id}`, 'build-definition');
  });

  test('the files of an uploaded build context are listed for its owner', async () => {
    await using directory = await makeTempDir('context-files');
    const names = ['Dockerfile', '<b>bold', 'a/\u202etxt.exe'];
    await mkdir(directory.join('a'));
    await writeFile(directory.join(names[0] ?? ''), `FROM ${world.base}\nCOPY . /c\n`);
    for (const name of names.slice(1)) await writeFile(directory.join(name), 'x'.repeat(1500));
    // A smaller context is a part of the request.
    await writeFile(directory.join('large'), randomBytes(9 * 1024 * 1024));
    for (let at = 0; at < 250; at += 1) await writeFile(directory.join(`z${at}`), '');
    const result = await sluiceCommand([
      ...['build', directory.path, '--server', world.sluice.url, '--await', '--json'],
    ]);
    const { buildId: id } = JSON.parse(assertSuccess(result)) as { buildId: string };
    await using tab = await world.browser.open();
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    await page.getByRole('link', { name: 'Files of the build context' }).click();
    await page.getByText(/^1 to 200 of 25\d/).waitFor();
    assert.match(
      (await page.locator('tr', { hasText: '<b>bold' }).textContent()) ?? '',
      /1\.5 kB0644/,
    );
    assert.equal(await page.locator('tr', { hasText: 'a/\\u{202e}txt.exe' }).count(), 1);
    await page.getByRole('link', { name: 'Later' }).click();
    await page.getByText(/^201 to 25\d of 25\d/).waitFor();
    const admin = `Basic ${Buffer.from('admin:secret').toString('base64')}`;
    const path = `/view/builds/${id}/files`;
    assert.equal(
      (await world.sluice.fetch(path, { headers: { authorization: admin } })).status,
      200,
    );
  });

  test('its caller cancels a build without scripts, and the page loads itself again', async () => {
    const id = await world.build(`FROM ${world.base}\nRUN echo long; sleep 600\n`);
    await using tab = await world.browser.open({ javaScript: false });
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    await page.locator('.line', { hasText: 'echo long' }).first().waitFor();
    await page.getByRole('button', { name: 'Cancel the build' }).click();
    await page.getByText('The build was cancelled.').waitFor();
    await page.locator('.failure', { hasText: 'The build was cancelled' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Cancel the build' }).count(), 0);
  });

  test('another caller may neither cancel a build nor see the other builds of its image', async () => {
    const admin = `Basic ${Buffer.from('admin:secret').toString('base64')}`;
    const containerFile = Buffer.from(`FROM ${world.base}\nRUN sleep 600\n`).toString('base64');
    const response = await world.sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: admin },
      body: JSON.stringify({ containerFile }),
    });
    const { buildId: id } = (await response.json()) as { buildId: string };
    const path = `/view/builds/${id}`;
    assert.ok(!(await html(path)).includes('Cancel the build'));
    const post = (headers: Record<string, string>) =>
      world.sluice.fetch(`${path}/cancel`, {
        ...{ method: 'POST', redirect: 'manual' },
        headers: { ...asBrowser.headers, ...headers },
      });
    const refused = await post({});
    assert.equal(refused.status, 401);
    assert.match(await refused.text(), /Only the caller who requested a build/);
    assert.equal((await post({ origin: 'https://evil.test', authorization: admin })).status, 403);
    assert.equal((await post({ authorization: admin })).status, 303);
    assert.match(await world.finished(id), /The build was cancelled/);

    const again = await world.build(`FROM ${world.base}\nRUN sleep 600\n`);
    await world.sluice.fetch(`/view/builds/${again}/cancel`, {
      method: 'POST',
      redirect: 'manual',
    });
    await world.finished(again);
    assert.notEqual(again, id);
    assert.ok(!(await html(`/view/builds/${again}`)).includes(id));
    const other = await world.sluice.fetch(`/view/builds/${id}`, {
      headers: { ...asBrowser.headers, authorization: admin },
    });
    assert.ok(!(await other.text()).includes(again));
  });

  test('earlier builds of the same image are compared for their owner', async () => {
    const dockerfile = `FROM ${world.base}\nRUN echo first; exit 4\n`;
    const first = await world.build(dockerfile);
    await world.finished(first);
    const containerFile = Buffer.from(dockerfile).toString('base64');
    const response = await world.sluice.request({ containerFile, buildOptions: {}, noCache: true });
    const { buildId: second = '' } = response;
    assert.notEqual(second, first);
    await world.finished(second);
    const text = await html(`/view/builds/${second}`);
    assert.match(text, /Builds of the same image/);
    assert.ok(text.includes(`href="/view/builds/${first}"`));
    await using tab = await world.browser.open();
    await tab.page.goto(`${world.sluice.url}/view/builds/${second}`);
    await tab.page.getByText('Duration by step').click();
    const row = tab.page.locator('.compared tr', { hasText: 'RUN echo first; exit 4' });
    assert.deepEqual(await row.locator('td').allTextContents(), ['failed', 'failed']);
    const loaded = tab.page.locator('.compared tr', { hasText: 'load build definition' });
    for (const time of await loaded.locator('td').allTextContents())
      assert.match(time, /^\d.* m?s$/);
  });

  test('the log is read page by page and by step without scripts', async () => {
    const id = await world.build(
      `FROM ${world.base}\nRUN for i in $(seq 1 900); do echo "row $i"; done\n`,
    );
    await world.finished(id);
    await using tab = await world.browser.open({ javaScript: false });
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id.replace('_', '-')}`);
    const visible = (text: string) => page.locator('.line', { hasText: text }).count();
    assert.equal(await visible('row 900'), 1);
    assert.equal(await visible('row 2 '), 0);
    await page.getByRole('link', { name: 'First' }).click();
    assert.ok((await visible('row 1')) > 0);
    assert.equal(await visible('row 900'), 0);
    await page.locator('.steps a', { hasText: '#5' }).click();
    const lines = await page.locator('.line span').allTextContents();
    assert.ok(lines.length > 100 && lines.every(line => line.startsWith('#5 ')), lines[0]);
  });

  test('a build without a record of its steps shows what its log says', async () => {
    const id = await world.build(`FROM ${world.base}\nRUN echo old\n`);
    await world.finished(id);
    await rm(join(world.sluice.data, 'logs/builds', `${id}.steps`));
    const text = await html(`/view/builds/${id}`);
    assert.match(text, /\[2\/2\] RUN echo old<\/span><\/th><td><span class="badge good">done</);
    assert.doesNotMatch(text, /<svg/);
  });

  test('the colours of programs are readable in the log, in light and dark', async () => {
    const all = [0, 1, 2, 3, 4, 5, 6, 7];
    const texts = [30, 90, 40, 100].map(first =>
      all.map(one => `\\033[${first + one}m text ${first + one} \\033[0m`).join(''),
    );
    const more =
      '\\033[1mbold\\033[0m \\033[7mreversed\\033[0m \\033[2mdim\\033[0m \\033[38;5;208morange\\033[0m';
    const id = await world.build(
      `FROM ${world.base}\nRUN printf '${texts.join('\\n')}\\n${more}\\n'; printf '10%%\\r20%%\\r\\033[32mall of it\\033[0m\\n'\n`,
    );
    await world.finished(id);
    await using tab = await world.browser.open();
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    const line = (text: string) => page.locator('.line', { hasText: text }).last();
    assert.equal(await line('text 31').locator('.t-red').textContent(), ' text 31 ');
    assert.equal(await line('text 104').locator('.on-blue').textContent(), ' text 104 ');
    assert.equal(await line('orange').locator('.t-yellow').textContent(), 'orange');
    assert.match((await line('all of it').textContent()) ?? '', /^\d+#5 [\d.]+ all of it$/);
    const api = `/v1alpha1/builds/${id}/logs`;
    assert.ok(!(await (await world.sluice.fetch(api)).text()).includes('\u001b'));
    const coloured = await (await world.sluice.fetch(`${api}?colors=true`)).text();
    assert.ok(coloured.includes('\u001b[0;32mall of it\u001b[0m\n'));
    await checkLooks(world.browser, `${world.sluice.url}/view/builds/${id}`, 'build-colours');
  });

  test('hostile texts in names of steps and in the log stay texts', async () => {
    const script = '<script>document.title="broken"</script><img src=x onerror=alert(1)>';
    const id = await world.build(
      `FROM ${world.base}\nRUN : '${script}'\nRUN printf '${script}\\033[2J\\033]0;title\\007\\342\\200\\256 \\000 end\\n'; head -c 10000 /dev/zero | tr '\\0' y\n`,
    );
    await world.finished(id);
    await using tab = await world.browser.open();
    const { page } = tab;
    await page.goto(`${world.sluice.url}/view/builds/${id}`);
    await page.locator('.line', { hasText: 'The build succeeded' }).waitFor();
    assert.match(await page.title(), /^Succeeded: build of builds:/);
    assert.equal(await page.locator('#content img, #content script').count(), 0);
    const line = await page.locator('.line', { hasText: ' end' }).last().textContent();
    assert.ok(line?.includes(`${script}\ufffd \ufffd end`), JSON.stringify(line));
    const long = await page.locator('.line', { hasText: 'yyyy' }).first().textContent();
    assert.match(long ?? '', /y… \(the whole line is in the download\)$/);
  });
});
