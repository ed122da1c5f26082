/** Figures of builds for operators: real builds on a real BuildKit, and a queue that is full. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { shortDurationText } from '../../src/pages/frame/html.ts';
import { library, program } from '../world/conda-programs.ts';
import { eventually } from '../world/eventually.ts';
import { startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { checkLooks } from './browser-world.ts';
import { type BuildWorld, startBuildWorld } from './build-world.ts';
import { pageText } from './page-text.ts';

const authorization = `Basic ${btoa('admin:secret')}`;
const config = { accounts: { admin: 'secret' } };
let directory: TempDir;
let world: BuildWorld;

before(async () => {
  directory = await makeTempDir('usage-builds');
  world = await startBuildWorld({
    data: directory.join('data'),
    packages: {
      'conda-forge': [program('procps-ng', '4.0'), library('1.3')],
      bioconda: [program('samtools', '1.20', { depends: ['library >=1.3,<2'] })],
    },
    config: { ...config, builds: { concurrent: 1, maxWaiting: 2 } },
  });
});
after(async () => {
  await world?.stop();
  await directory?.remove();
});

const conda = async (entries: readonly string[]) => {
  const response = await world.sluice.request({
    packages: {
      ...{ type: 'CONDA', entries, channels: ['conda-forge', 'bioconda'] },
      condaOpts: { baseImage: `${world.registry.host}/debian:1` },
    },
  });
  await world.finished(response.buildId ?? '');
};
/** Returns a file for spreadsheets as objects by the names of its columns. */
const table = async (name: string, server = world.sluice) => {
  const [head = [], ...rows] = (
    await pageText(server, `/view/usage/${name}.csv`, { authorization })
  )
    .trimEnd()
    .split('\r\n')
    .map(line => line.split(','));
  return rows.map(row => Object.fromEntries(row.map((cell, at) => [head[at] ?? '', cell])));
};
const today = () => new Date().toISOString().slice(0, 10);

test('results, times, cache hits and the queue of real builds are on the page', async () => {
  const one = `FROM ${world.base}\nRUN echo one > /one\n`;
  await world.finished(await world.build(one));
  await world.build(one);
  await world.finished(await world.build(`${one}RUN echo two > /two\n`));
  await world.finished(await world.build(`FROM ${world.base}\nRUN exit 3\n`));
  await conda(['library']);
  await conda(['samtools']);

  // One build runs, one waits, and a third one finds the queue full.
  const slow = await world.build(`FROM ${world.base}\nRUN sleep 600\n`);
  const waiting = await world.build(`FROM ${world.base}\nRUN sleep 601\n`);
  const refused = await world.sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ containerFile: btoa(`FROM ${world.base}\nRUN sleep 602\n`) }),
  });
  assert.equal(refused.status, 503);
  await eventually('a look at the queue', async () =>
    (await table('queue')).some(hour => hour['Most waiting'] === '1'),
  );
  for (const id of [waiting, slow]) {
    const response = await world.sluice.fetch(`/v1alpha1/builds/${id}`, {
      method: 'DELETE',
      headers: { authorization },
    });
    assert.ok(response.ok, await response.text());
    await world.finished(id);
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
  const metrics = await (await world.sluice.fetch('/metrics')).text();
  assert.match(
    metrics,
    /^sluice_build_results_total\{recipe="dockerfile",result="succeeded"\} 2$/m,
  );
  assert.match(metrics, /^sluice_build_seconds_count\{recipe="conda",phase="running"\} 2$/m);
});

test('builds and limits can be read at every width, light and dark', async () => {
  for (const name of ['builds', 'limits']) {
    await checkLooks(
      world.browser,
      `${world.sluice.url}/view/usage/${name}`,
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
  await world.sluice.stop();
  await using again = await startSluice({ data: directory.join('data'), config });
  assert.deepEqual(await table('build-results', again), before);
  assert.ok((await table('queue', again)).some(hour => hour['Most waiting'] === '1'));
});

test('durations at an axis have six characters at most, so that a phone shows all of them', () => {
  const texts = [0, 0.5, 999, 2500, 150_000, 599_999, 600_000, 1.5e6, 1.5e7, 4e8];
  assert.deepEqual(
    texts.map(ms => shortDurationText(ms)),
    ['0', '0.5 ms', '999 ms', '2.5 s', '150 s', '600 s', '10 min', '25 min', '4.2 h', '5 d'],
  );
});
