/** Figures of builds for operators: real builds on a real BuildKit, and a queue that is full. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const authorization = `Basic ${btoa('admin:secret')}`;
const headers = { accept: 'text/html', authorization };
let browser: TestBrowser;
let registry: Registry;
let buildkitd: Buildkitd;
let channels: CondaChannels;
let sluice: Sluice;
let directory: TempDir;
let base: string;

before(async () => {
  [browser, registry, buildkitd] = await Promise.all([
    startBrowser(),
    startRegistry(),
    startBuildkitd(),
  ]);
  base = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
  await pushDebianImage(registry, 'debian');
  channels = await startCondaChannels({
    'conda-forge': [program('procps-ng', '4.0'), library('1.3')],
    bioconda: [program('samtools', '1.20', { depends: ['library >=1.3,<2'] })],
  });
  const channelOf = (name: string) => ({
    [name]: { url: `${channels.url}/${name}`, allowPrivateAddress: true },
  });
  directory = await makeTempDir('usage-builds');
  sluice = await startSluice({
    data: directory.join('data'),
    config: {
      channels: { ...channelOf('conda-forge'), ...channelOf('bioconda') },
      accounts: { admin: 'secret' },
      buildkit: [buildkitd.address],
      builds: { syntax: 'builder', concurrent: 1, maxWaiting: 2 },
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await channels?.stop();
  await buildkitd?.stop();
  await registry?.stop();
  await directory?.remove();
});

const textOf = async (path: string) => {
  const answer = await sluice.fetch(path, { headers });
  assert.equal(answer.status, 200, path);
  return answer.text();
};
const build = async (dockerfile: string) => {
  const containerFile = Buffer.from(dockerfile).toString('base64');
  const answer = await sluice.request({ containerFile });
  return (answer as unknown as { buildId: string }).buildId;
};
const ended = async (id: string) =>
  (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
const conda = async (entries: readonly string[]) => {
  const answer = await sluice.request({
    packages: {
      ...{ type: 'CONDA', entries, channels: ['conda-forge', 'bioconda'] },
      condaOpts: { baseImage: `${registry.host}/debian:1` },
    },
  });
  await ended((answer as unknown as { buildId: string }).buildId);
};
/** Returns a file for spreadsheets as objects by the names of its columns. */
const table = async (name: string) => {
  const [head = [], ...rows] = (await textOf(`/view/usage/${name}.csv`))
    .trimEnd()
    .split('\r\n')
    .map(line => line.split(','));
  return rows.map(row => Object.fromEntries(row.map((cell, at) => [head[at] ?? '', cell])));
};
const today = () => new Date().toISOString().slice(0, 10);

test('results, times, cache hits and the queue of real builds are on the page', async () => {
  const one = `FROM ${base}\nRUN echo one > /one\n`;
  await ended(await build(one));
  await build(one);
  await ended(await build(`${one}RUN echo two > /two\n`));
  await ended(await build(`FROM ${base}\nRUN exit 3\n`));
  await conda(['library']);
  await conda(['samtools']);

  // One build runs, one waits, and a third one finds the queue full.
  const slow = await build(`FROM ${base}\nRUN sleep 600\n`);
  const waiting = await build(`FROM ${base}\nRUN sleep 601\n`);
  const refused = await sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerFile: btoa(`FROM ${base}\nRUN sleep 602\n`) }),
  });
  assert.equal(refused.status, 503);
  await eventually('a look at the queue', async () =>
    (await table('queue')).some(hour => hour['Most waiting'] === '1'),
  );
  for (const id of [waiting, slow]) {
    const answer = await sluice.fetch(`/v1alpha1/builds/${id}`, {
      method: 'DELETE',
      headers: { authorization },
    });
    assert.ok(answer.ok, await answer.text());
    await ended(id);
  }

  const results = (await table('build-results')).at(-1) ?? {};
  assert.equal(results.Day, today());
  assert.equal(results.Succeeded, '4');
  assert.equal(results.Cancelled, '2');
  assert.equal(results['Failed: recipe'], '1');

  const times = await table('build-times-by-recipe');
  assert.deepEqual(
    times.map(({ Recipe, Builds }) => [Recipe, Builds]),
    [
      ['Conda packages', '2'],
      ['Dockerfile', '4'],
    ],
  );
  for (const row of times) {
    assert.ok(Number(row['Ran: 95 % (ms)']) >= Number(row['Ran: median (ms)']));
    assert.ok(Number(row['Ran: median (ms)']) > 0);
  }

  const hits = (await table('cache-hits')).at(-1) ?? {};
  assert.equal(hits['Answered by an image'], '1');
  assert.equal(hits['New builds'], '7');
  assert.ok(Number(hits['Cached steps']) >= 1, 'the second build had the steps of the first');
  assert.ok(Number(hits['Executed steps']) >= 2);
  assert.equal(hits['Kept layers'], '2', 'the library was there for the program');
  assert.equal(hits['Made layers'], '3');

  const limits = await table('limits');
  assert.ok(limits.some(({ Limit }) => Limit === 'builds that run or wait'));
  const metrics = await (await sluice.fetch('/metrics')).text();
  assert.match(
    metrics,
    /^sluice_build_results_total\{recipe="dockerfile",result="succeeded"\} 2$/m,
  );
  assert.match(metrics, /^sluice_build_seconds_count\{recipe="conda",phase="running"\} 2$/m);
});

test('builds and limits can be read at every width, light and dark', async () => {
  for (const name of ['builds', 'limits']) {
    await checkLooks(
      browser,
      `${sluice.url}/view/usage/${name}`,
      `usage-${name}`,
      async page => {
        for (const summary of await page.locator('summary').all()) await summary.click();
      },
      { headers: { authorization } },
    );
  }
});

test('the figures outlive the server', async () => {
  const before = await table('build-results');
  await sluice.stop();
  sluice = await startSluice({ data: sluice.data, config: { accounts: { admin: 'secret' } } });
  assert.deepEqual(await table('build-results'), before);
  assert.ok((await table('queue')).some(hour => hour['Most waiting'] === '1'));
});
