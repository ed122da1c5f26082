/** The health of other hosts for operators: a registry and a builder that go down, and a platform that fails. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createRemoteHealth } from '../../src/foundation/telemetry/remote-health.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type ScriptedPlatform, startScriptedPlatform } from '../platform/scripted-platform.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';
import { pageText } from './page-text.ts';

const authorization = `Basic ${btoa('admin:secret')}`;
const headers = { accept: 'text/html', authorization };
const token = 'secret-token-of-a-person';
let browser: TestBrowser;
let registry: Registry;
let buildkitd: Buildkitd;
let platform: ScriptedPlatform;
let sluice: Sluice;
let base: string;

before(async () => {
  [browser, registry, buildkitd, platform] = await Promise.all([
    startBrowser(),
    startRegistry(),
    startBuildkitd(),
    startScriptedPlatform(),
  ]);
  platform.users.set(token, { id: 7, userName: 'ada', email: null });
  platform.credentials.set('7', []);
  base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  sluice = await startSluice({
    config: {
      accounts: { admin: 'secret' },
      buildkit: [buildkitd.address],
      builds: { syntax: 'builder' },
      platform: { url: platform.url },
      upstream: { attempts: 1 },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await platform?.[Symbol.asyncDispose]();
  await buildkitd?.stop();
  await registry?.stop();
});

const textOf = (path: string) => pageText(sluice, path, headers);
/** Requests a container; returns the status. */
const request = async (body: object) => {
  const response = await sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await response.text();
  return response.status;
};
/** Returns the row of a host as one text. */
const rowOf = async (title: string, host: string) => {
  await using tab = await browser.open({ javaScript: false, headers: { authorization } });
  await tab.page.goto(`${sluice.url}/view/usage/health`);
  const section = tab.page.getByRole('region', { name: title, exact: true });
  return await section.locator('tr', { hasText: host }).innerText();
};

test('hosts that work are on the page, with builders, versions and platforms', async () => {
  assert.match(await textOf('/view/usage/health'), /None was used since the start/);
  assert.equal(await request({ containerImage: base, towerAccessToken: token }), 200);
  const containerFile = btoa(`FROM ${base}\nRUN echo one > /one\n`);
  const { buildId } = await sluice.request({ containerFile });
  await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
  assert.match(await rowOf('Registries', registry.host), /Working\s+\d+\s+0\s+[\d.]+ m?s\s+20\d\d/);
  assert.match(await rowOf('Platforms', platform.host), /Working\s/);
  await eventually('the version of the builder is known', async () =>
    /v\d+\.\d+\.\d+\s+linux\/\w+/.test(await rowOf('Builders', buildkitd.address)),
  );
  assert.match(await textOf('/view/usage/health'), /All checks succeed/);
});

test('hosts that fail say why, without secrets', async () => {
  platform.on('/user-info', (call, response) => {
    response.statusCode = 500;
    response.end(JSON.stringify({ message: `<script>alert(1)</script> ${call.token}` }));
  });
  assert.notEqual(
    await request({ containerImage: base, towerAccessToken: `${token}-2`, freeze: false }),
    200,
  );
  await buildkitd.stop();
  const containerFile = btoa(`FROM ${base}\nRUN echo two > /two\n`);
  const { buildId } = await sluice.request({ containerFile });
  await eventually('the builder fails', async () =>
    /Failing/.test(await rowOf('Builders', buildkitd.address)),
  );
  await sluice.fetch(`/v1alpha1/builds/${buildId}`, { method: 'DELETE', headers });
  await registry.stop();
  assert.equal(await request({ containerImage: `${registry.host}/corpus/other:1` }), 502);
  assert.match(await rowOf('Registries', registry.host), /Failing[\s\S]*refused the connection/);
  assert.match(await rowOf('Platforms', platform.host), /Failing[\s\S]*failed \(500\)/);
  const text = await textOf('/view/usage/health');
  assert.ok(!text.includes(token) && !text.includes('<script>alert'));
  assert.match(await textOf('/view/usage/registries.csv'), /^Registry,State,.*Median time.*\(ms\)/);
});

test('metrics of hosts are for administrators', async () => {
  const public_ = await (await sluice.fetch('/metrics')).text();
  assert.ok(!public_.includes(registry.host));
  assert.equal((await sluice.fetch('/metrics/hosts')).status, 401);
  const metrics = await textOf('/metrics/hosts');
  const pattern = `^sluice_remote_requests_total\\{kind="registry",host="${registry.host}",result="failure"\\} [1-9]`;
  assert.match(metrics, new RegExp(pattern, 'm'));
});

test('health can be read at every width, light and dark', async () => {
  await checkLooks(browser, `${sluice.url}/view/usage/health`, 'usage-health', undefined, {
    headers: { authorization },
  });
});

test('hosts of callers take bounded memory, and an hour later only their last times are left', () => {
  const clock = { now: Date.parse('2026-01-01') };
  const health = createRemoteHealth({ now: () => clock.now });
  for (let at = 0; at < 10_000; at += 1)
    health.failure('registry', `host-${at}`, 'x'.repeat(10_000));
  assert.equal(health.list().length, 100);
  assert.ok(health.list().every(({ failure }) => failure?.length === 400));
  for (let ms = 1; ms <= 1000; ms += 1) health.success('registry', 'host-9999', ms);
  const [first] = health.list();
  assert.equal(first?.name, 'host-9999');
  assert.deepEqual([first?.requests, first?.failures], [1001, 1]);
  assert.ok(Math.abs((first?.medianMs ?? 0) - 500) < 30, `${first?.medianMs}`);
  clock.now += 2 * 3_600_000;
  const [later] = health.list();
  assert.deepEqual([later?.requests, later?.medianMs], [0, undefined]);
  assert.equal(later?.succeededAt, Date.parse('2026-01-01'));
});

test('a clock that jumps does not turn a working host into a failing one', () => {
  const start = Date.parse('2026-01-01');
  const clock = { now: start };
  const health = createRemoteHealth({ now: () => clock.now });
  health.failure('registry', 'one', 'down');
  for (const jumpMs of [-2 * 3_600_000, 48 * 3_600_000, -24 * 3_600_000]) {
    clock.now += jumpMs;
    health.success('registry', 'one', 5);
    assert.equal(health.list()[0]?.isFailing, false);
    health.failure('registry', 'one', 'down');
    assert.equal(health.list()[0]?.isFailing, true);
    assert.equal(health.list()[0]?.requests, 2, 'requests of the future are not of the last hour');
  }
});

test('hosts that strangers name never take the places of the hosts of the operator', () => {
  const health = createRemoteHealth({ registries: ['registry.example'] });
  health.failure('registry', 'registry.example', 'down');
  health.success('registry', 'in-use.example', 5);
  health.success('builder', 'tcp://builder', 5);
  for (let at = 0; at < 1000; at += 1) {
    health.failure('registry', `silent-${at}.example`, 'unknown');
    if (at < 250) health.success('registry', `stranger-${at}.example`, 5);
  }
  health.success('registry', 'in-use.example', 5);
  const names = health.list().map(({ name }) => name);
  assert.deepEqual(names.slice(0, 2), ['registry.example', 'in-use.example']);
  assert.ok(names.includes('tcp://builder'));
  assert.ok(names.length <= 1 + 300 + 100 + 1);
  for (let at = 0; at < 1000; at += 1) health.success('registry', `other-${at}.example`, 5);
  assert.equal(health.list()[0]?.name, 'registry.example');
});
