/** Served names in place of image names: their images, with the rights of the caller. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import { type FaultWorld, postJson, startFaultWorld } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import { emptyLayer, type ScriptedImage } from '../faults/scripted-upstream.ts';
import { assertSuccess } from '../integration/served.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

interface Config {
  readonly architecture: string;
  readonly config: Record<'Env' | 'Entrypoint' | 'Cmd', string[] | undefined>;
}

suite('served names', () => {
  let world: FaultWorld;
  let image: ScriptedImage;
  before(async () => {
    world = await startFaultWorld();
    image = world.upstreams.relay.image('team/app');
  });
  after(() => world?.[Symbol.asyncDispose]());

  const layers = [{ location: `data:${emptyLayer.toString('base64')}` }];
  const request = (containerImage: string, containerConfig: object = {}) =>
    world.sluice.request({ containerImage, containerConfig });
  const configOf = async (targetImage: string, sluice = world.sluice) => {
    const manifest = await call(sluice.at(targetImage, 'manifests/latest'));
    assert.equal(manifest.status, 200, manifest.body.toString());
    const { config, layers } = JSON.parse(manifest.body.toString());
    for (const { digest } of layers) {
      assert.equal((await call(sluice.at(targetImage, `blobs/${digest}`))).status, 200, digest);
    }
    const blob = await call(sluice.at(targetImage, `blobs/${config.digest}`));
    return { ...(JSON.parse(blob.body.toString()) as Config), layers: layers.length as number };
  };
  const inspect = async (containerImage: string) => {
    const reply = await postJson(`${world.sluice.url}/v1alpha1/inspect`, { containerImage });
    assert.equal(reply.status, 200, reply.body.toString());
    return JSON.parse(reply.body.toString()).container;
  };

  test('are inspected as they are pulled', async () => {
    const { targetImage, digest } = await request(image.name, { env: ['A=1'], layers });
    const container = await inspect(targetImage);
    assert.equal(container.digest, digest);
    assert.ok(container.config.config.env.includes('A=1'));
    const { layers: served } = await configOf(targetImage);
    assert.equal(container.manifest.layers.length, served);
    assert.deepEqual(await inspect(`oras://${targetImage}`), container);
    const plain = await request(image.name);
    assert.equal((await inspect(plain.targetImage)).digest, image.digest);
  });

  test('can be changed again, and the changes apply one after another', async () => {
    const first = await request(image.name, { env: ['A=1', 'B=1'], entrypoint: ['/one'], layers });
    const second = await request(first.targetImage, { env: ['B=2'], entrypoint: ['/two'], layers });
    assert.doesNotMatch(second.targetImage, new RegExp(first.containerToken));
    assert.match(second.targetImage, /\/ct\/[a-z2-7]+\/team\/app:latest$/);
    const { config, layers: count } = await configOf(second.targetImage);
    assert.deepEqual(config.Entrypoint, ['/two']);
    for (const entry of ['A=1', 'B=2', 'WAVE_ENTRY_CHAIN=/one']) {
      assert.ok(config.Env?.includes(entry), `${entry}: ${config.Env}`);
    }
    const once = await configOf(first.targetImage);
    assert.equal(count, once.layers + 1);

    // It does not depend on the first name any more, and a sweep removes none of its content.
    const ended = await call(`${world.sluice.url}/container-token/${first.containerToken}`, {
      method: 'DELETE',
      headers: { authorization: `Basic ${btoa('admin:open sesame')}` },
    });
    assert.equal(ended.status, 200);
    const sweep = ['gc', '--data', world.sluice.data];
    assertSuccess(await sluiceCommand(sweep, { SLUICE_SWEEP_GRACE: '0s' }));
    assert.deepEqual((await configOf(second.targetImage)).config, config);
    const again = await world.ask({ containerImage: first.targetImage });
    assertApiFault(again, 400, /The image is a served name\. The container token was revoked/);
  });

  test('are distinguished from other names', async () => {
    const { targetImage, containerToken } = await request(image.name);
    for (const [name, message] of [
      [
        targetImage.replace(':latest', ':other'),
        /serves team\/app:latest only: check the image name/,
      ],
      [targetImage.replace('/team/app', '/team/else'), /serves team\/app:latest only/],
      [targetImage.replace(containerToken, 'a'.repeat(32)), /Unknown container token/],
      [targetImage.split('/').slice(0, 3).join('/'), /serves team\/app:latest only|not|invalid/i],
    ] as const) {
      assertApiFault(await world.ask({ containerImage: name }), 400, message);
      const reply = await postJson(`${world.sluice.url}/v1alpha1/inspect`, {
        containerImage: name,
      });
      assertApiFault(reply, 400, message);
    }
    await world.sluice.requests();
    assert.ok(!world.sluice.output().includes(containerToken), 'the token is in the log');
  });

  test('cannot be changed without limit', async () => {
    let { targetImage } = await request(image.name, { env: ['A=0'] });
    for (const env of ['A=1', 'A=2', 'A=3']) {
      ({ targetImage } = await request(targetImage, { env: [env] }));
    }
    const fifth = { containerImage: targetImage, containerConfig: { env: ['A=4'] } };
    assertApiFault(await world.ask(fifth), 400, /at most 4 changes/);
  });

  test('keep the scheme that clients write before Singularity images', async () => {
    const { relay } = world.upstreams;
    const ociManifest = 'application/vnd.oci.image.manifest.v1+json';
    const digest = digestOf(Buffer.from('{}'));
    const config = { mediaType: 'application/vnd.sylabs.sif.config.v1+json', digest, size: 2 };
    relay.put(`team/sif/blobs/${digest}`, 'application/octet-stream', Buffer.from('{}'));
    const sif = { schemaVersion: 2, mediaType: ociManifest, config, layers: [] };
    const manifest = Buffer.from(JSON.stringify(sif));
    for (const reference of ['latest', digestOf(manifest)]) {
      relay.put(`team/sif/manifests/${reference}`, ociManifest, manifest);
    }
    const { targetImage } = await request(`oras://${relay.host}/team/sif`);
    assert.match(targetImage, /^oras:\/\/127\.0\.0\.1:\d+\/ct\/[a-z2-7]+\/team\/sif:latest$/);
    const name = targetImage.replace('oras://', '');
    assert.equal((await call(world.sluice.at(name, 'manifests/latest'))).status, 200);
    assert.match((await request(targetImage)).targetImage, /^oras:/);
  });

  test('have the scheme for Singularity images only where there is one', async () => {
    for (const dryRun of [false, true]) {
      const ordinary = await world.ask({ containerImage: `oras://${image.name}`, dryRun });
      assertApiFault(ordinary, 400, /is a container image, and 'oras:\/\/' is for .*: leave out/);
    }
    const served = await request(image.name);
    const again = await world.ask({ containerImage: `oras://${served.targetImage}` });
    assertApiFault(again, 400, /is a container image/);
  });

  // Source: containers/image, which refuses a longer name before it asks a registry.
  test('are not longer than clients accept', async () => {
    const { relay } = world.upstreams;
    const rest = `127.0.0.1:65535/ct/${'x'.repeat(32)}/`.length;
    const fits = relay.image(`l/${'a'.repeat(255 - rest - 2)}`);
    assert.ok((await request(fits.name)).targetImage.replace(/:latest$/, '').length <= 255);
    const long = relay.image(`l/${'a'.repeat(232)}`);
    assertApiFault(
      await world.ask({ containerImage: long.name }),
      400,
      /clients accept at most 255/,
    );
    const containerFile = Buffer.from('FROM scratch').toString('base64');
    const buildRepository = `${relay.host}/${'a'.repeat(232)}`;
    const built = await world.ask({ containerFile, buildRepository });
    assertApiFault(built, 400, /clients accept at most 255/);
    const frozen = { containerFile, buildRepository: `${buildRepository}aaaaaaaaaa`, freeze: true };
    assertApiFault(await world.ask(frozen), 400, /'buildRepository' has 2\d\d characters/);
    // The names of the packages make it longer, which is known before the build.
    const suffixed = {
      packages: { type: 'CONDA', entries: [`tool${'x'.repeat(60)}=1`] },
      nameStrategy: 'imageSuffix',
      buildRepository: `${relay.host}/${'a'.repeat(175)}`,
    };
    const frozenLater = {
      ...suffixed,
      buildRepository: `${relay.host}/${'a'.repeat(190)}`,
      freeze: true,
    };
    for (const body of [suffixed, frozenLater]) {
      for (const dryRun of [false, true]) {
        const refused = await world.ask({ ...body, dryRun });
        assertApiFault(refused, 400, /would have 2\d\d characters.*than imageSuffix/);
      }
    }
  });

  test('cannot be used here where pulls require a login', async () => {
    await using closed = await startSluice({
      config: {
        access: { pulls: 'login' },
        registries: { [world.upstreams.relay.host]: { plainHttp: true } },
      },
    });
    const { targetImage } = await closed.request({ containerImage: image.name });
    const body = { containerImage: targetImage };
    for (const path of ['/v1alpha2/container', '/v1alpha1/inspect']) {
      assertApiFault(await postJson(closed.url + path, body), 403, /require a login/);
    }
  });
});
