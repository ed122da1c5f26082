/** What takes the disk, for operators: content of every kind on a real server. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { bytesBelow } from '../../src/server/upkeep/disk-use.ts';
import { imageOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { basic, Repository } from '../hosted/push-client.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const login = basic('admin', 'secret');
const headers = { accept: 'text/html', ...login };
let browser: TestBrowser;
let registry: Registry;
let channels: CondaChannels;
let sluice: Sluice;
let directory: TempDir;

before(async () => {
  [browser, registry, directory] = await Promise.all([
    startBrowser(),
    startRegistry(),
    makeTempDir('usage-disk'),
  ]);
  await pushDebianImage(registry, 'debian');
  channels = await startCondaChannels({
    'conda-forge': [program('procps-ng', '4.0'), library('1.3')],
    bioconda: [],
  });
  const options = {
    data: directory.join('data'),
    config: {
      accounts: { admin: 'secret' },
      channels: channels.settings,
      registries: { [registry.host]: { plainHttp: true, blobs: 'cache' } },
      hosted: { maxTotalBytes: '1 GiB', anonymous: ['public/*'] },
    },
  };
  sluice = await startSluice(options);

  const hosted = new Repository(sluice, 'public/app', login);
  await hosted.pushImage('1', [randomBytes(300_000)]);
  const layers = [await layerOf([{ name: 'file', content: randomBytes(200_000) }])];
  const pusher = await Pusher.open(registry, 'team/app');
  await pusher.push(imageOf({ layers }), '1');
  await pusher.close();
  const { targetImage } = await sluice.request({ containerImage: `${registry.host}/team/app:1` });
  const manifest = (await (await fetch(sluice.at(targetImage, 'manifests/1'))).json()) as {
    layers: { digest: string }[];
  };
  const [layer] = manifest.layers;
  await (await fetch(sluice.at(targetImage, `blobs/${layer?.digest}`))).arrayBuffer();
  const response = await sluice.request({
    packages: {
      ...{ type: 'CONDA', entries: ['library'], channels: ['conda-forge', 'bioconda'] },
      condaOpts: { baseImage: `${registry.host}/debian:1` },
    },
  });
  const { buildId } = response;
  await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
  // A server looks at its disk when it starts.
  await sluice.stop();
  sluice = await startSluice(options);
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await sluice?.stop();
  await channels?.stop();
  await registry?.stop();
  await directory?.remove();
});

const table = async (name: string) => {
  const response = await sluice.fetch(`/view/usage/${name}.csv`, { headers });
  const [, ...rows] = (await response.text()).trimEnd().split('\r\n');
  return new Map(
    rows.map(row => {
      const [first = '', ...cells] = row
        .replace(/^"([^"]*)"/, (_, text) => text.replaceAll(',', ''))
        .split(',');
      return [first, cells];
    }),
  );
};

test('the disk is shown by content', async () => {
  await eventually('the first look has ended', async () => (await table('disk')).size > 1);
  const rows = await table('disk');
  const bytesOf = (content: string) => Number(rows.get(content)?.[1]);
  assert.ok(bytesOf('Hosted repositories') >= 300_000, `${bytesOf('Hosted repositories')}`);
  assert.ok(bytesOf('Cache of registries') >= 200_000);
  assert.ok(bytesOf('Layers of Conda packages') > 0);
  assert.ok(bytesOf('Served images and injected layers') > 0);
  assert.ok(bytesOf('Repository data of Conda') > 0);
  assert.ok(bytesOf('Logs of builds') > 0);
  assert.ok(bytesOf('Database') > 100_000);
  assert.ok(bytesOf('Free') > 0);
  const shares = [...rows.values()].reduce((sum, cells) => sum + Number(cells[2]), 0);
  assert.ok(Math.abs(shares - 1) < 0.01, `${shares}`);
  const metrics = await (await sluice.fetch('/metrics')).text();
  assert.match(metrics, /^sluice_disk_content_bytes\{content="hosted repositories"\} \d{6,}$/m);
  assert.match(metrics, /^sluice_disk_free_bytes \d+$/m);
});

test('the limits of the disk are shown with what is used', async () => {
  const rows = await table('disk-limits');
  const [setting, used, limit] = rows.get('All hosted repositories') ?? [];
  assert.deepEqual([setting, limit], ['hosted.maxTotalBytes', String(2 ** 30)]);
  assert.ok(Number(used) >= 300_000);
  assert.ok(Number(rows.get('Cache of registries')?.[1]) >= 200_000);
  assert.equal(rows.get('One pushed blob')?.[2], 'No limit');
});

test('the disk can be read at every width, light and dark', async () => {
  await checkLooks(browser, `${sluice.url}/view/usage/disk`, 'usage-disk', undefined, {
    headers: login,
  });
});

test('folders with very many files are counted up to a limit', async () => {
  await using folder = await makeTempDir('many-files');
  await mkdir(folder.join('below'));
  for (let at = 0; at < 20; at += 1) await writeFile(folder.join(`below/${at}`), 'text');
  const all = await bytesBelow([folder.path, folder.join('nowhere')]);
  assert.deepEqual([all.files, all.isWhole], [20, true]);
  assert.ok(all.bytes >= 20 * 512);
  const some = await bytesBelow([folder.path], undefined, 10);
  assert.equal(some.isWhole, false);
});
