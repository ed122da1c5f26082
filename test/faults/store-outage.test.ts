/** A build whose object store is away for longer than the builder repeats its push. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { startObjectStore } from '../world/object-store.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';

test('a build waits for an object store that is away', { timeout: 300_000 }, async () => {
  await using store = await startObjectStore();
  await using registry = await startRegistry();
  await using builder = await startBuildkitd();
  await pushCorpus(registry, ['busybox:oci']);
  await using sluice = await startSluice({
    config: {
      access: { builds: 'open' },
      buildkit: [builder.address],
      registries: { [registry.host]: { plainHttp: true } },
    },
    env: {
      ...store.env,
      SLUICE_CONTENT: `s3://${await store.createBucket()}/site`,
      SLUICE_S3_ENDPOINT: store.url,
      SLUICE_S3_REGION: 'us-east-1',
      SLUICE_S3_PATH_STYLE: 'true',
    },
  });
  const recipe = `FROM ${registry.host}/corpus/busybox:oci\nRUN echo stored > /file\n`;
  const { buildId } = await sluice.request({
    containerFile: Buffer.from(recipe).toString('base64'),
  });
  await store.kill();
  const textOf = async (route: string) =>
    (await sluice.fetch(`/v1alpha1/builds/${buildId}/${route}`)).text();
  const again = /The storage of the service does not answer: trying again/;
  await eventually('the build starts again', async () => again.test(await textOf('logs')));
  await store.start();
  await eventually('the build ends', async () => /COMPLETED/.test(await textOf('status')));
  assert.equal(JSON.parse(await textOf('status')).succeeded, true, await textOf('logs'));
});
