/** Many environments at once whose server is killed, a disk that fills up while layers are made, a channel that drips. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { digestOf } from '../../src/oci/digest.ts';
import { channelSettings, startCondaChannels } from '../world/conda-channels.ts';
import { program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ChannelScript, startScriptedChannel } from '../world/scripted-channel.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const environments = 50;
const packages = 30;
const mebibyte = 1024 ** 2;

async function worldOf(t: TestContext, sizes: readonly number[]) {
  const registry: Registry = await startRegistry();
  t.after(() => registry.stop());
  await pushDebianImage(registry, 'debian');
  const own = sizes.map((size, at) => ({
    ...{ name: `package-${at}`, version: '1' },
    files: [{ name: `share/package-${at}`, content: randomBytes(size) }],
  }));
  const { files, stop } = await startCondaChannels({
    'conda-forge': [...own, program('procps-ng', '4.0')],
    bioconda: [],
  });
  await stop();
  const serve: ChannelScript = ({ url }) => files.get(url);
  const channel = await startScriptedChannel(t, serve);
  const config = {
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true } },
    channels: channelSettings(channel.url, ['conda-forge', 'bioconda']),
  };
  const ask = (sluice: Sluice, entries: readonly string[]) =>
    sluice.request({
      packages: {
        ...{ type: 'CONDA', entries },
        condaOpts: { baseImage: `${registry.host}/debian:1` },
      },
    });
  return { channel, config, ask, files, serve };
}

async function logOf(sluice: Sluice, { buildId }: ContainerResponse): Promise<string> {
  return (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
}

async function layersOf(sluice: Sluice, { targetImage }: ContainerResponse): Promise<string[]> {
  const tag = targetImage.split(':').at(-1);
  const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
  const { layers } = (await response.json()) as { layers: { digest: string }[] };
  return layers.map(({ digest }) => digest);
}

/** Bytes of unfinished content in the data directory. */
async function temporary(data: string): Promise<string[]> {
  const names = await readdir(`${data}/content/tmp`);
  return names.filter(name => !name.startsWith('ready-'));
}

test('kill -9 amid 50 environments: each of them is made after the restart', async t => {
  const world = await worldOf(
    t,
    Array.from({ length: packages }, () => 200_000),
  );
  const { channel, config, ask } = world;
  const entriesOf = (at: number) =>
    [at, at * 7 + 1, at * 11 + 3].map(one => `package-${one % packages}`);
  await using directory = await makeTempDir('conda-crowds');
  const data = directory.join('data');
  const options = { config, data, port: await freePort() };
  let sluice = await startSluice(options);
  try {
    const responses: (ContainerResponse | undefined)[] = [];
    const asked = Array.from({ length: environments }, async (_, at) => {
      responses[at] = await ask(sluice, entriesOf(at)).catch(() => undefined);
    });
    await eventually('archives are fetched', () => {
      return channel.requests.filter(path => /package-\d+-1/.test(path)).length >= packages / 3;
    });
    await sluice.kill();
    await Promise.all(asked);
    sluice = await startSluice(options);
    assert.deepEqual(
      (await temporary(data)).filter(name => name.includes('upload')),
      [],
    );
    for (const response of responses) {
      if (!response) continue;
      assert.match(await logOf(sluice, response), /The build succeeded/);
    }
    // A package has one layer, whichever environment it is in, and its bytes are right.
    const again = await Promise.all(
      Array.from({ length: environments }, (_, at) => ask(sluice, entriesOf(at))),
    );
    const layers = new Map<string, Set<string>>();
    for (const [at, response] of again.entries()) {
      assert.match(await logOf(sluice, response), /The build succeeded/);
      const found = await layersOf(sluice, response);
      assert.equal(new Set(found).size, found.length, entriesOf(at).join());
      for (const digest of found) {
        layers.set(digest, (layers.get(digest) ?? new Set()).add(response.targetImage));
      }
    }
    const [first] = again;
    assert.ok(first);
    for (const digest of layers.keys()) {
      const name = [...(layers.get(digest) ?? [])][0] ?? first.targetImage;
      const blob = await fetch(sluice.at(name, `blobs/${digest}`));
      assert.equal(digestOf(Buffer.from(await blob.arrayBuffer())), digest);
    }
    await eventually('nothing half made is kept', async () => {
      return (await temporary(data)).length === 0;
    });
  } finally {
    await sluice.stop();
  }
});

test('a disk that is full while layers are made fails the build with the reason, and keeps nothing of it', async t => {
  const { config, ask } = await worldOf(t, [40 * mebibyte, 40 * mebibyte, 100_000]);
  await using sluice = await startSluice({ config, diskBytes: 64 * mebibyte });
  const data = `/proc/${sluice.process.pid}/root${sluice.data}`;
  const reason = await ask(sluice, ['package-0', 'package-1']).then(
    response => logOf(sluice, response),
    (error: Error) => error.message,
  );
  assert.match(reason, /disk/i);
  assert.doesNotMatch(reason, /The build succeeded/);
  await eventually('nothing of it is kept', async () => (await temporary(data)).length === 0);
  const small = await ask(sluice, ['package-2']);
  assert.match(await logOf(sluice, small), /The build succeeded/);
  assert.equal((await sluice.fetch('/readyz')).status, 200);
});

test('a channel that sends a byte a second fails the build in time, and the next one is made', async t => {
  const world = await worldOf(t, [300_000, 200_000]);
  const { channel, ask, files, serve } = world;
  const config = {
    ...world.config,
    builds: { retryAfter: '0s' },
    conda: { packages: { fetchTimeout: '3s' } },
  };
  await using sluice = await startSluice({ config });
  let dripping = 0;
  channel.script = (request, response) => {
    const bytes = files.get(request.url);
    if (!bytes || !request.url.includes('package-0-1')) return serve(request, response);
    dripping += 1;
    response.writeHead(200, { 'content-length': bytes.length });
    const drip = async () => {
      for (const [at] of bytes.entries()) {
        if (response.destroyed) break;
        response.write(bytes.subarray(at, at + 1));
        await sleep(1000);
      }
      dripping -= 1;
    };
    return drip();
  };
  const slow = await ask(sluice, ['package-0', 'package-1']).then(
    response => logOf(sluice, response),
    (error: Error) => error.message,
  );
  assert.match(slow, /takes longer than 3 s to send package-0.*conda\.packages\.fetchTimeout/);
  await eventually('no connection is left', () => dripping === 0);
  channel.script = serve;
  const reply = await ask(sluice, ['package-0', 'package-1']);
  assert.match(await logOf(sluice, reply), /The build succeeded/);
});
