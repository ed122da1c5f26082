/** Images of Conda packages whose server is killed at random moments: while it solves, fetches, makes layers, pushes. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { digestOf } from '../../src/oci/digest.ts';
import { channelSettings, startCondaChannels } from '../world/conda-channels.ts';
import { program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { startRegistry } from '../world/registry.ts';
import { startScriptedChannel } from '../world/scripted-channel.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const rounds = 4;
/** Packages of each round that no other round has. */
const own = 5;

interface BuildResponse {
  readonly targetImage: string;
  readonly buildId: string;
}

test('kill -9 at any moment loses nothing and leaves nothing half made', async t => {
  const registry = await startRegistry();
  t.after(() => registry.stop());
  await pushDebianImage(registry, 'debian');
  const shared = Array.from({ length: 4 }, (_, at) => ({
    ...{ name: `shared-${at}`, version: '1' },
    files: [{ name: `share/shared-${at}`, content: randomBytes(300_000) }],
  }));
  const packages = Array.from({ length: rounds }, (_, round) =>
    Array.from({ length: own }, (_, at) => ({
      ...{ name: `own-${round}-${at}`, version: '1', depends: [`shared-${at % 4}`] },
      files: [{ name: `share/own-${round}-${at}`, content: randomBytes(500_000) }],
    })),
  );
  const all = [...packages.flat(), ...shared, program('procps-ng', '4.0')];
  const { files, stop } = await startCondaChannels({ 'conda-forge': all, bioconda: [] });
  await stop();
  const channel = await startScriptedChannel(t, ({ url }) => files.get(url));
  const config = {
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true } },
    channels: channelSettings(channel.url, ['conda-forge', 'bioconda']),
  };
  const ask = async (sluice: Sluice, round: number) =>
    (await sluice.request({
      packages: {
        ...{ type: 'CONDA', entries: packages[round]?.map(({ name }) => name) },
        condaOpts: { baseImage: `${registry.host}/debian:1` },
      },
    })) as unknown as BuildResponse;
  const logOf = async (sluice: Sluice, id: string) =>
    (await sluice.fetch(`/v1alpha1/builds/${id}/logs?follow=true`)).text();
  /** Returns the digests of the layers, and checks that their bytes can be pulled. */
  const layersOf = async (sluice: Sluice, { targetImage }: BuildResponse) => {
    const tag = targetImage.split(':').at(-1);
    const response = await fetch(sluice.at(targetImage, `manifests/${tag}`));
    const { layers } = (await response.json()) as { layers: { digest: string }[] };
    for (const { digest } of layers) {
      const blob = await fetch(sluice.at(targetImage, `blobs/${digest}`));
      assert.equal(digestOf(Buffer.from(await blob.arrayBuffer())), digest);
    }
    return layers.map(({ digest }) => digest);
  };

  await using reference = await startSluice({ config });
  await using data = await makeTempDir('killed-conda');
  const options = { config, data: data.join('data'), port: await freePort() };
  let sluice = await startSluice(options);
  try {
    for (let round = 0; round < rounds; round += 1) {
      // At a random request to the channel, and a random time after it: all moments from the solve to the push.
      const [requests, delayMs] = [1 + Math.floor(Math.random() * 12), Math.random() * 400];
      const moment = `round ${round}: killed ${delayMs} ms after request ${requests}`;
      const before = channel.requests.length;
      const asked = ask(sluice, round).catch(() => undefined);
      // The packages may be known, so that there are fewer requests.
      let hasEnded = false;
      const ended = asked
        .then(reply => reply && logOf(sluice, reply.buildId))
        .catch(() => undefined)
        .finally(() => {
          hasEnded = true;
        });
      await eventually(
        'the channel is asked',
        () => hasEnded || channel.requests.length >= before + requests,
      );
      await sleep(delayMs);
      await sluice.kill();
      const response = await asked;
      await ended;
      sluice = await startSluice(options);
      // The build of an answered request goes on by itself.
      if (response)
        assert.match(await logOf(sluice, response.buildId), /The build succeeded/, moment);
      const again = await ask(sluice, round);
      assert.match(await logOf(sluice, again.buildId), /The build succeeded/, moment);
      const first = await ask(reference, round);
      await logOf(reference, first.buildId);
      const expected = await layersOf(reference, first);
      assert.deepEqual(await layersOf(sluice, again), expected, moment);
      assert.deepEqual(await readdir(data.join('data', 'content', 'tmp')), [], moment);
    }
  } finally {
    await sluice.stop();
  }
});
