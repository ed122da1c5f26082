/** Lists of builds and of hosted repositories, as callers with different rights see them. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Page } from 'playwright-core';
import { digestOf } from '../../src/oci/digest.ts';
import { basic, expect, manifestType, Repository } from '../hosted/push-client.ts';
import { accounts } from '../integration/hosted.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const accept = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const admin = basic('admin', 'secret');
const ci = basic('ci', 'word');
const reader = basic('reader', 'read');
const hostile = `<script>alert("1")</script>'"\u202e\u0007`;

suite('lists', { concurrency: 1 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let browser: TestBrowser;
  const digests = new Map<string, string>();

  before(async () => {
    [browser, registry] = await Promise.all([startBrowser(), startRegistry()]);
    sluice = await startSluice({
      config: {
        accounts,
        freezeRepository: `${registry.host}/frozen`,
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const layer = Buffer.alloc(100_000, 'layer');
    for (const name of ['public/app', 'team/app', 'secret/app']) {
      const repository = new Repository(sluice, name);
      for (const tag of ['1', '2']) {
        const own = Buffer.alloc(50_000, name + tag);
        digests.set(`${name}:${tag}`, await repository.pushImage(tag, [layer, own]));
      }
    }
    await attach(new Repository(sluice, 'team/app'), digests.get('team/app:1') ?? '');
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
    await registry?.stop();
  });

  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await sluice.fetch(path, { headers: { ...accept, ...headers } });
    return { status: response.status, text: await response.text() };
  };
  const freeze = async (image: string, author: string, headers: Record<string, string>) => {
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({
        containerImage: `${new URL(sluice.url).host}/${image}`,
        containerConfig: { env: [`AUTHOR=${author}`] },
        freeze: true,
      }),
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    const { buildId } = JSON.parse(text) as { buildId: string };
    await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    return buildId;
  };
  const idsIn = (text: string) =>
    [...text.matchAll(/href="\/view\/builds\/([^"?]+)"/g)].map(([, id]) => id);

  test('everyone sees their own builds, administrators all, and strangers none', async () => {
    const first = await freeze('public/app:1', 'ci', ci);
    const second = await freeze('public/app:1', 'reader', reader);
    const third = await freeze('public/app:1', 'nobody', {});
    const seen = async (headers?: Record<string, string>, query = '') =>
      idsIn((await get(`/view/builds${query}`, headers)).text);
    assert.deepEqual(await seen(ci), [first]);
    assert.deepEqual(await seen(reader), [second]);
    assert.deepEqual(await seen(ci, '?scope=all'), [first]);
    assert.deepEqual(await seen(), []);
    assert.deepEqual(await seen(admin), [third, second, first]);
    assert.match((await get('/view/builds', ci)).text, /<td>linux\/amd64<\/td>/);
    assert.deepEqual(await seen(admin, '?scope=own'), []);
    assert.deepEqual(await seen(admin, '?state=succeeded&kind=image'), [third, second, first]);
    assert.deepEqual(await seen(admin, '?state=failed'), []);
    assert.deepEqual(await seen(admin, '?kind=conda'), []);
    assert.deepEqual(await seen(admin, '?target=no-such-name'), []);
    assert.equal((await get('/view/builds?state=odd', admin)).status, 400);
    const { text } = await get(`/view/builds?target=${encodeURIComponent(hostile)}`, admin);
    assert.ok(!text.includes('<script>alert'));
    await using tab = await browser.open({ headers: admin });
    await tab.page.goto(`${sluice.url}/view/builds`);
    await tab.page.getByLabel('State').selectOption('succeeded');
    await tab.page.getByRole('button', { name: 'Show' }).click();
    await tab.page.waitForURL(/state=succeeded/);
    await tab.page
      .getByRole('link', { name: /frozen/ })
      .last()
      .waitFor();
    assert.equal(await tab.page.locator('table.listed tbody tr').count(), 3);
  });

  test('everyone sees the repositories that they may pull, and cannot tell others from none', async () => {
    const seen = async (headers?: Record<string, string>) =>
      [
        ...(await get('/view/repositories', headers)).text.matchAll(
          /<code>((?:public|team|secret)\/[^<]+)<\/code>/g,
        ),
      ].map(([, name]) => name);
    assert.deepEqual(await seen(), ['public/app']);
    assert.deepEqual(await seen(reader), ['public/app', 'team/app']);
    assert.deepEqual((await seen(admin)).slice(0, 3), ['public/app', 'secret/app', 'team/app']);
    const content = '/view/repositories/content?name=';
    const wordsOf = async (name: string, headers = reader) => {
      const { status, text } = await get(content + name, headers);
      return [status, /<p class="failure">([^<]*)/.exec(text)?.[1]?.replaceAll(name, 'X')];
    };
    assert.deepEqual(await wordsOf('secret/app'), await wordsOf('secret/none'));
    assert.deepEqual(await wordsOf('secret/app'), await wordsOf('team/none'));
    assert.equal((await get(`${content}${encodeURIComponent('../<b>')}`, admin)).status, 400);
  });

  test('a repository shows its tags, sizes, platforms and referrers; their texts do no harm', async () => {
    const path = '/view/repositories/content?name=team/app';
    const { text } = await get(path, reader);
    assert.match(text, /linux\/amd64/);
    assert.match(text, /150 kB/);
    assert.ok(text.includes(digests.get('team/app:1') ?? '-'));
    assert.match(text, /&lt;script&gt;alert/);
    assert.ok(!text.includes('<script>alert'));
    for (const hidden of ['\u202e', '\u0007']) assert.ok(!text.includes(hidden));
    assert.doesNotMatch(text, /\/view\/repositories\/delete/);
    await using tab = await browser.open({ headers: reader });
    await tab.page.goto(sluice.url + path);
    await tab.page.locator('summary').first().click();
    await tab.page.getByText('x'.repeat(100)).waitFor();
  });

  test('a deletion says what it frees, requires the right, and is in the audit log', async () => {
    const digest = digests.get('team/app:2') ?? '';
    const address = (reference: string) =>
      `/view/repositories/delete?name=team/app&reference=${encodeURIComponent(reference)}`;
    for (const [headers, status] of [
      [reader, 403],
      [ci, 403],
      [{}, 404],
    ] as const) {
      assert.equal((await get(address('2'), headers)).status, status);
      const response = await sluice.fetch(address('2'), {
        method: 'POST',
        headers: { ...accept, ...headers },
        redirect: 'manual',
      });
      assert.equal(response.status, status);
    }
    const foreign = await sluice.fetch(address('2'), {
      method: 'POST',
      headers: { ...accept, ...admin, origin: 'https://evil.example' },
    });
    assert.equal(foreign.status, 403);
    await using tab = await browser.open({ headers: admin });
    const { page } = tab;
    await page.goto(`${sluice.url}/view/repositories/content?name=team/app`);
    await page.getByRole('link', { name: 'Delete 2' }).click();
    await page.getByText('nothing: the image stays under its digest').waitFor();
    await page.getByRole('link', { name: 'delete the image with all its tags' }).click();
    // The layer of 100 kB belongs to the other image too.
    await page.locator('dd', { hasText: /^51 kB$/ }).waitFor();
    await page.getByRole('button', { name: 'Delete this image' }).click();
    await page.getByRole('status').getByText(`Deleted ${digest}`).waitFor();
    assert.equal(await page.locator('tbody tr').count(), 1);
    const gone = await new Repository(sluice, 'team/app').get(`manifests/${digest}`);
    assert.equal(gone.status, 404);
  });

  test('the lists can be read at every width, light and dark', async () => {
    const asAdmin: TestBrowser = {
      ...browser,
      open: view => browser.open({ ...view, headers: admin }),
    };
    for (const [name, path] of [
      ['builds', '/view/builds'],
      ['repositories', '/view/repositories'],
      ['repository', '/view/repositories/content?name=public/app'],
      ['deletion', '/view/repositories/delete?name=public/app&reference=1'],
    ] as const) {
      await checkLooks(asAdmin, sluice.url + path, name);
    }
  });

  test('a browser lists the builds that it has opened without a login, and no others', async () => {
    const own = await freeze('public/app:1', 'a browser', {});
    const others = await freeze('public/app:1', 'another browser', {});
    const list = async (page: Page) => {
      await page.goto(`${sluice.url}/view/builds`);
      return page.locator('#own-builds');
    };
    await using tab = await browser.open({ mayFail: true });
    const { page } = tab;
    await (await list(page)).getByText('has not opened a build yet').waitFor();
    await page.goto(`${sluice.url}/view/builds/${own}`);
    // What another script has written is left out, and a build that the server has removed.
    await page.evaluate(`localStorage.setItem('sluice-builds', JSON.stringify([
      null, 7, { id: 'removed_1', name: '<img src=x>' }, ...JSON.parse(localStorage.getItem('sluice-builds'))]))`);
    const entry = (await list(page)).locator('li', { hasText: 'succeeded' });
    assert.equal(await entry.locator('a').getAttribute('href'), `/view/builds/${own}`);
    assert.deepEqual(await page.locator('#own-builds li').count(), 1);
    assert.ok(!(await page.content()).includes(others));

    await using person = await browser.open({ headers: ci });
    await person.page.goto(`${sluice.url}/view/builds/${own}`);
    await person.page.locator('.line').first().waitFor();
    assert.equal(await person.page.evaluate(`localStorage.getItem('sluice-builds')`), null);
  });
});

/** Attaches an artifact to an image, with texts from outside. */
async function attach(repository: Repository, subject: string): Promise<void> {
  const empty = Buffer.from('{}');
  expect(await repository.pushBlob(empty), 201);
  const described = await repository.get(`manifests/${subject}`);
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    artifactType: 'application/vnd.example.note',
    config: {
      mediaType: 'application/vnd.oci.empty.v1+json',
      digest: digestOf(empty),
      size: empty.length,
    },
    layers: [],
    subject: { mediaType: manifestType, digest: subject, size: described.body.length },
    annotations: { [hostile]: hostile, long: 'x'.repeat(10_000) },
  };
  const bytes = Buffer.from(JSON.stringify(manifest));
  expect(
    await repository.send('PUT', `manifests/${digestOf(bytes)}`, bytes, {
      'content-type': manifestType,
    }),
    201,
  );
}
