/** Builds and pushes whose object store is away for a while. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { administered, expect, Repository } from '../hosted/push-client.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { startRegistry } from '../world/registry.ts';
import { startSluice } from '../world/sluice.ts';
import { startStoreRelay } from '../world/store-relay.ts';
import { pattern } from './scripted-upstream.ts';

/** Returns the variables of a server whose content is in a new bucket, and that reaches the store at the address. */
async function variablesOf(store: ObjectStore, url = store.url): Promise<Record<string, string>> {
  return {
    ...store.env,
    SLUICE_CONTENT: `s3://${await store.createBucket()}/site`,
    SLUICE_S3_ENDPOINT: url,
    SLUICE_S3_REGION: 'us-east-1',
    SLUICE_S3_PATH_STYLE: 'true',
  };
}

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
    env: await variablesOf(store),
  });
  const recipe = `FROM ${registry.host}/corpus/busybox:oci\nRUN sleep 6; echo stored > /file\n`;
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

test('a chunk is not acknowledged while the store is away, and the push continues afterwards', {
  timeout: 300_000,
}, async () => {
  await using store = await startObjectStore();
  await using sluice = await startSluice({ config: administered, env: await variablesOf(store) });
  const repository = new Repository(sluice, 'team/app');
  const bytes = pattern(3_000_000, 'chunks');
  const send = (location: string, from: number, to: number) =>
    repository.send('PATCH', location, bytes.subarray(from, to), {
      'content-range': `${from}-${to - 1}`,
    });
  const location = await repository.begin();
  expect(await send(location, 0, 1_000_000), 202);
  await store.kill();
  assert.equal((await send(location, 1_000_000, 2_000_000)).status, 503);
  await store.start();
  const { range } = expect(await repository.get(location), 204).headers;
  assert.equal(range, '0-1999999');
  expect(await send(location, 2_000_000, 2_500_000), 202);
  const end = `${location}?digest=${digestOf(bytes)}`;
  expect(await repository.send('PUT', end, bytes.subarray(2_500_000)), 201);
  assert.ok((await repository.get(`blobs/${digestOf(bytes)}`)).body.equals(bytes));
});

test('a server stops while its sweep waits for the store', { timeout: 300_000 }, async () => {
  await using store = await startObjectStore();
  await using relay = await startStoreRelay(store.url);
  const held = Promise.withResolvers<void>();
  relay.fail(
    ({ url = '' }) => /prefix=site%2Fuploads/.test(url),
    () => held.resolve(),
  );
  await using sluice = await startSluice({
    config: { sweep: { interval: '1s' } },
    env: await variablesOf(store, relay.url),
  });
  await held.promise;
  const ended = once(sluice.process, 'exit');
  sluice.process.kill('SIGINT');
  assert.deepEqual(await ended, [0, null]);
  // Without a limit the server waits until the request to the store fails.
  assert.match(sluice.output(), /regular work still waits for its storage.*"msg":"stopped"/s);
  assert.doesNotMatch(sluice.output(), /could not be closed|the server failed/);
});
