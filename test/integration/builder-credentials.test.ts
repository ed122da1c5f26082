/** A builder uses the caller's credentials for each repository. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { startBuildkitd } from '../world/buildkitd.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';

const administrator = { name: 'admin', password: 'secret' };
const basic = (name: string, password: string) =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

/** A registry with accounts for parts of it, and a token service: hosted repositories. */
const startParts = () =>
  startSluice({
    config: {
      accounts: {
        admin: 'secret',
        one: { password: 'password-of-one', repositories: { 'one/*': 'push' } },
        other: { password: 'password-of-other', repositories: { 'other/*': 'push' } },
      },
    },
  });

async function copyImage(from: string, name: string, to: Sluice): Promise<void> {
  const authorization = basic('admin', 'secret');
  const response = await fetch(`${from}/v2/corpus/busybox/manifests/oci`, {
    headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
  });
  const manifest = Buffer.from(await response.arrayBuffer());
  const { config, layers } = JSON.parse(manifest.toString()) as Record<string, never> & {
    config: { digest: string };
    layers: { digest: string }[];
  };
  for (const { digest } of [config, ...layers]) {
    const blob = await (await fetch(`${from}/v2/corpus/busybox/blobs/${digest}`)).arrayBuffer();
    const put = await to.fetch(`/v2/${name}/blobs/uploads/?digest=${digest}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/octet-stream' },
      body: blob,
    });
    assert.equal(put.status, 201, await put.text());
  }
  const put = await to.fetch(`/v2/${name}/manifests/1`, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/vnd.oci.image.manifest.v1+json' },
    body: manifest,
  });
  assert.equal(put.status, 201, await put.text());
}

test('several credentials for parts of one registry are used for their parts', async () => {
  await using open = await startRegistry();
  await pushCorpus(open, ['busybox:oci']);
  await using parts = await startParts();
  await copyImage(open.url, 'other/base', parts);
  await using buildkitd = await startBuildkitd();
  await using sluice = await startSluice({
    config: {
      accounts: { admin: 'secret' },
      buildkit: [buildkitd.address],
      registries: { [parts.host]: { plainHttp: true } },
    },
  });
  const token = await newAccessToken(sluice, administrator, 'ada@example.org');
  for (const name of ['one', 'other']) {
    const keys = {
      registry: `${parts.host}/${name}`,
      userName: name,
      password: `password-of-${name}`,
    };
    const response = await sluice.fetch('/platform/credentials', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ credentials: { keys } }),
    });
    assert.equal(response.status, 200, await response.text());
  }
  const build = async (base: string, target: string, more = '') => {
    const { buildId } = (await sluice.request({
      platformAccessToken: token,
      containerFile: Buffer.from(
        `FROM ${parts.host}/${base}\nRUN echo ${target} > /made${more}\n`,
      ).toString('base64'),
      buildRepository: `${parts.host}/${target}`,
    })) as ContainerResponse & { buildId: string };
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const status = await sluice.fetch(`/v1alpha1/builds/${buildId}`);
    return { log, ...((await status.json()) as { succeeded: boolean; targetImage: string }) };
  };
  const first = await build('other/base:1', 'one/made');
  assert.equal(first.succeeded, true, first.log);
  const plan = (await sluice.request({
    platformAccessToken: token,
    containerFile: Buffer.from(`FROM ${parts.host}/other/base:1\n`).toString('base64'),
    buildRepository: `${parts.host}/one/made`,
    cacheRepository: `${parts.host}/other/cache`,
    dryRun: true,
  })) as unknown as {
    registries: { repository: string; credentials: { name: string }; canPush?: boolean }[];
  };
  assert.deepEqual(
    plan.registries.map(({ repository, credentials, canPush }) => [
      repository.slice(parts.host.length + 1),
      credentials.name.slice(parts.host.length + 1),
      canPush,
    ]),
    [
      ['other/base', 'other', undefined],
      ['one/made', 'one', true],
      ['other/cache', 'other', true],
    ],
  );
  // And the other way round, of what was made.
  const made = first.targetImage.slice(parts.host.length + 1);
  const second = await build(made, 'other/made', 'again');
  assert.equal(second.succeeded, true, second.log);
});
