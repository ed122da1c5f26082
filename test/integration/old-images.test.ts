/** Images whose configs have other types than today's, beside artifacts that resemble them. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { corpusNames, type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { runWithPodman } from '../world/clients.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { assertSuccess, change, plainRegistries } from './served.ts';

const oldNames = corpusNames().filter(name => name.startsWith('old:'));
const artifacts = ['artifact:oras11', 'artifact:directory', 'artifact:plugin'];

suite('images of old types', () => {
  let registry: Registry;
  let sluice: Sluice;
  let images: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry();
    images = await pushCorpus(registry, [...oldNames, ...artifacts, 'multi:empty']);
    sluice = await startSluice({ config: plainRegistries(registry.host) });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const nameOf = (name: string) => images.get(name)?.reference ?? '';
  const post = async (path: string, body: object) => {
    const response = await sluice.fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const freeze = (body: object) => post('/v1alpha2/container', { freeze: true, ...body });
  /** Waits for the end of the build, which must succeed. Returns the name of its image. */
  const finished = async ({ body }: { body: Record<string, unknown> }): Promise<string> => {
    const { buildId, targetImage, message } = body;
    assert.equal(typeof buildId, 'string', String(message));
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);
    return String(targetImage);
  };

  test('an inspection shows the config of an image, whatever its type, but not that of an artifact', async () => {
    for (const name of [...oldNames, ...artifacts]) {
      const { body } = await post('/v1alpha1/inspect', { containerImage: nameOf(name) });
      const { container } = body as { container: { config?: { config: { cmd: string[] } } } };
      const expected = name.startsWith('old:') ? ['/bin/sh'] : undefined;
      assert.deepEqual(container.config?.config.cmd, expected, name);
    }
  });

  test('podman runs the changed image', async () => {
    await using root = await openRoot('forky');
    const containerConfig = { env: ['GREETING=hello'], entrypoint: [], cmd: ['env'] };
    for (const name of ['old:octet-stream', 'old:json']) {
      const { targetImage } = await sluice.request({
        containerImage: nameOf(name),
        containerConfig,
      });
      assert.match(
        assertSuccess(await runWithPodman(root, targetImage)),
        /^GREETING=hello$/m,
        name,
      );
    }
  });

  test('the image is frozen with its config, and made into a Singularity image', async () => {
    const body = { containerImage: nameOf('old:octet-stream') };
    const place = `${registry.host}/team/old`;
    const changed = { ...body, containerConfig: change, buildRepository: place };
    const frozen = await finished(await freeze(changed));
    const inspected = await post('/v1alpha1/inspect', { containerImage: frozen });
    assert.match(JSON.stringify(inspected.body), /GREETING=injected/);
    await finished(await freeze({ ...body, format: 'sif', buildRepository: `${place}-sif` }));
  });

  test('a change that cannot be made is refused with freeze, also by a dry run', async () => {
    for (const [name, wording] of [
      ...artifacts.map(artifact => [artifact, /is an artifact, not a container image/] as const),
      ['multi:empty', /is an index without an image to change/] as const,
    ]) {
      const body = { containerImage: nameOf(name), buildRepository: `${registry.host}/team/odd` };
      for (const dryRun of [true, false]) {
        const changed = { ...body, containerConfig: { env: ['A=1'] }, dryRun };
        const refused = await freeze(changed);
        assert.equal(refused.status, 400, name);
        assert.match(String(refused.body.message), wording, name);
        assert.match(String(refused.body.message), /the containerConfig cannot be applied/, name);
      }
      const plain = await freeze({ ...body, dryRun: true });
      assert.equal(plain.status, 200, `${name}: ${plain.body.message}`);
    }
  });

  test('an artifact is not made into a Singularity image', async () => {
    for (const name of artifacts) {
      const body = { containerImage: nameOf(name), buildRepository: `${registry.host}/team/odd` };
      const { status, body: response } = await freeze({ ...body, format: 'sif' });
      assert.equal(status, 400, name);
      assert.match(String(response.message), /only an image can be converted/, name);
    }
  });
});
