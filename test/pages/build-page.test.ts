/** The page of a build: real builds on a real BuildKit, watched in a real browser. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const asBrowser = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } };
const hostile = `<script>alert("1")</script>'"\u202e`;

suite('the page of a build', () => {
  let registry: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let browser: TestBrowser;
  let base: string;

  before(async () => {
    registry = await startRegistry();
    base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    [buildkitd, browser] = await Promise.all([startBuildkitd(), startBrowser()]);
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        builds: { syntax: 'builder' },
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
    await buildkitd?.stop();
    await registry?.stop();
  });

  const request = async (dockerfile: string): Promise<string> => {
    const containerFile = Buffer.from(dockerfile).toString('base64');
    const answer = await sluice.request({ containerFile });
    return (answer as unknown as { buildId: string }).buildId;
  };
  const finished = async (id: string) =>
    (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
  const html = async (path: string) => (await sluice.fetch(path, asBrowser)).text();

  test('a build is watched from its first step to its image, without a reload', async () => {
    const id = await request(
      `FROM ${base} AS one\nRUN sleep 2; echo from one > /one\nFROM ${base}\nRUN sleep 3; echo ${'x'.repeat(30)}\nCOPY --from=one /one /one\nRUN for i in 1 2 3; do echo line $i; sleep 1; done\nCMD ["cat", "/one"]\n`,
    );
    await using tab = await browser.open();
    const { page } = tab;
    await page.goto(`${sluice.url}/view/builds/${id}`);
    await page.locator('.steps tr.running').first().waitFor();
    await page.locator('.line', { hasText: 'line 1' }).waitFor();
    await page.locator('#state .badge.good', { hasText: 'succeeded' }).waitFor();
    await page.locator('.line', { hasText: 'The build succeeded' }).waitFor();
    assert.equal(await page.locator('#cancel').count(), 0);
    assert.match((await page.locator('#state dl').textContent()) ?? '', /sha256:[0-9a-f]{64}/);
    const rows = page.locator('.recipe tbody tr');
    assert.match((await rows.nth(3).textContent()) ?? '', /RUN sleep 3.*\d s/);
    assert.match((await rows.nth(5).textContent()) ?? '', /RUN for.*\d B/);
    const bars = await page.locator('.steps rect.done').count();
    assert.ok(bars >= 5, `${bars} bars`);
    await checkLooks(browser, `${sluice.url}/view/builds/${id}`, 'build');
  });

  test('a failed build says why first, and marks the line', async () => {
    const id = await request(
      `FROM ${base}\nRUN echo fine\nRUN echo '${hostile.replaceAll("'", '')}' >&2; exit 3\n`,
    );
    await finished(id);
    const path = `/view/builds/${id}`;
    await using tab = await browser.open();
    await tab.page.goto(sluice.url + path);
    const failure = await tab.page.locator('.failure').textContent();
    assert.match(failure ?? '', /ended with exit code 3 \(Dockerfile, line 3\)/);
    assert.match((await tab.page.locator('.recipe tr.failed').textContent()) ?? '', /^3RUN echo/);
    assert.equal(await tab.page.locator('.steps tr.failed').count(), 1);
    assert.ok(!(await html(path)).includes('<script>alert'));
    await checkLooks(browser, sluice.url + path, 'build-failed');
  });
});
