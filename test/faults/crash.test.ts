import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { postJson } from './fault-world.ts';
import { call } from './http-client.ts';
import { emptyLayer, pattern, startScriptedUpstream } from './scripted-upstream.ts';

const rounds = 3;
const workers = 8;
const patienceMs = 120_000;

test('after kill -9, every returned token works', async () => {
  await using upstream = await startScriptedUpstream();
  await using directory = await makeTempDir('crash');
  const data = directory.join('data');
  const config = {
    limits: { pulls: { anonymous: 'off' } },
    registries: { [upstream.host]: { plainHttp: true, blobs: 'cache' } },
  };
  const images = Array.from({ length: 4 }, (_, at) =>
    upstream.image(`crash/app${at}`, [pattern(200_000, `crash ${at}`)]),
  );
  const responses: ContainerResponse[] = [];

  /** Requests and pulls until the server is gone. */
  const storm = async (sluice: Sluice, worker: number) => {
    for (let at = 0; ; at += 1) {
      const image = images[(worker + at) % images.length];
      try {
        const reply = await postJson(`${sluice.url}/v1alpha2/container`, {
          containerImage: image?.name,
          containerConfig: {
            env: [`STORM=${worker}.${at}`],
            layers: [{ location: `data:${emptyLayer.toString('base64')}` }],
          },
        });
        if (!reply.isWhole) return;
        assert.equal(reply.status, 200);
        const response: ContainerResponse = JSON.parse(reply.body.toString());
        responses.push(response);
        await call(sluice.at(response.targetImage, 'manifests/latest'));
        await call(sluice.at(response.targetImage, `blobs/${image?.layers[0]?.digest}`));
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        return;
      }
    }
  };

  for (let round = 0; round < rounds; round += 1) {
    const before = responses.length;
    await using sluice = await startSluice({ config, data });
    const storms = Array.from({ length: workers }, (_, worker) => storm(sluice, worker));
    // During the work, whatever the speed of the machine.
    const areMany = () => responses.length > before + workers;
    await eventually('requests are answered', areMany, patienceMs);
    await sluice.kill();
    await Promise.all(storms);
  }

  await using sluice = await startSluice({ config, data });
  assert.deepEqual(await readdir(join(data, 'content', 'tmp')), [], 'leftovers are removed');
  for (const { targetImage, digest } of responses) {
    const manifest = await call(sluice.at(targetImage, 'manifests/latest'));
    assert.equal(manifest.status, 200, manifest.body.toString());
    assert.equal(digestOf(manifest.body), digest);
    const { config: described, layers } = JSON.parse(manifest.body.toString());
    const served = await call(sluice.at(targetImage, `blobs/${described.digest}`));
    assert.equal(digestOf(served.body), described.digest);
    const injected = await call(sluice.at(targetImage, `blobs/${layers.at(-1).digest}`));
    assertBytes(injected.body, emptyLayer);
  }

  const files = ['sluice.db', 'sluice.db-wal'].map(name => readFile(join(data, name)));
  const stored = Buffer.concat(await Promise.all(files)).toString('latin1');
  for (const { containerToken } of responses) {
    assert.ok(!stored.includes(containerToken), 'no token is in the database in plain text');
  }
});
