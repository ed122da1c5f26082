/**
 * Builders get base images from Sluice, which has verified them: a registry that lies about an image opens and changes no
 * image of others.
 */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { baseLayer } from '../corpus/base.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { amd64, arm64, type Image, imageOf, indexOf } from '../corpus/image.ts';
import { layerOf } from '../corpus/layer.ts';
import { Pusher } from '../corpus/push.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { type AttackerRegistry, startAttackerRegistry } from './attacker-registry.ts';
import { fetchJson } from './served.ts';

interface Manifest {
  readonly layers: readonly { readonly digest: string }[];
}

suite('verified base images', () => {
  let registry: Registry;
  let attacker: AttackerRegistry;
  let builders: Buildkitd[];
  let sluice: Sluice;
  let base: string;

  before(async () => {
    registry = await startRegistry();
    attacker = await startAttackerRegistry();
    const pushed = await pushCorpus(registry, ['busybox:oci', 'multi:index']);
    base = pushed.get('busybox:oci')?.reference ?? '';
    builders = await Promise.all([startBuildkitd(), startBuildkitd()]);
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: builders.map(({ address }) => address),
        builds: { syntax: 'builder' },
        limits: { builds: { anonymous: 'off' } },
        rightLife: '1s',
        registries: {
          [registry.host]: { plainHttp: true },
          [attacker.host]: { plainHttp: true },
        },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await Promise.all((builders ?? []).map(builder => builder.stop()));
    await attacker?.[Symbol.asyncDispose]();
    await registry?.stop();
  });

  const push = async (repository: string, image: Image): Promise<string> => {
    const pusher = await Pusher.open(registry, repository);
    await pusher.push(image, '1');
    await pusher.close();
    return `${registry.host}/${repository}:1`;
  };
  const request = (dockerfile: string, more: object = {}) =>
    sluice.request({
      containerFile: Buffer.from(dockerfile).toString('base64'),
      ...more,
    }) as Promise<ContainerResponse & { buildId: string }>;
  const logs = async (id: string) => (await sluice.fetch(`/v1alpha1/builds/${id}/logs`)).text();

  /** Builds, and returns whether it succeeded, its log, and the name of the image. */
  const build = async (dockerfile: string, more: object = {}) => {
    const { buildId: id, targetImage } = await request(dockerfile, more);
    const status = async () =>
      (await (await sluice.fetch(`/v1alpha1/builds/${id}/status`)).json()) as {
        status: string;
        succeeded: boolean;
      };
    await eventually('the build has ended', async () => (await status()).status === 'COMPLETED');
    return { ...(await status()), log: await logs(id), targetImage };
  };
  const succeed = async (dockerfile: string, more: object = {}) => {
    const built = await build(dockerfile, more);
    assert.ok(built.succeeded, built.log);
    return built;
  };
  const fail = async (dockerfile: string, reason: RegExp, more: object = {}) => {
    const built = await build(dockerfile, more);
    assert.equal(built.succeeded, false, built.log);
    assert.match(built.log, reason);
    return built;
  };

  const secretLayer = (text: string) => layerOf([{ name: 'secret', content: text }]);
  /** An image with a shell, and a file that only those who may pull it should see. */
  const privateImage = async (text: string) =>
    imageOf({ layers: [await baseLayer(), await secretLayer(text)] });

  test('the log shows the names of the Dockerfile, and no token', async () => {
    const { log } = await succeed(`FROM ${base}\nCOPY --from=${base} /bin/busybox /copy\n`);
    assert.ok(log.includes(`FROM ${base}@sha256:`), log);
    assert.ok(!log.includes('/ct/'), log);
  });

  test('two builders get a layer that Sluice has downloaded once', async () => {
    const image = await privateImage('once');
    const name = await push('team/once', image);
    const layer = image.blobs.at(-1)?.digest ?? '';
    for (const step of ['one', 'two', 'three', 'four']) {
      await Promise.all([
        succeed(`FROM ${name}\nRUN cat /secret; echo ${step}\n`),
        succeed(`FROM ${name}\nRUN cat /secret; echo ${step} again\n`),
      ]);
    }
    const loaded = registry.requests.filter(
      ({ method, path }) => method === 'GET' && path.endsWith(`/blobs/${layer}`),
    );
    assert.equal(loaded.length, 1, JSON.stringify(loaded));
    assert.ok(registry.requests.every(({ userAgent }) => !/buildkit/.test(userAgent)));
  });

  test('layers of others are not available by their digests', async () => {
    const image = await privateImage('of others');
    const name = await push('team/closed', image);
    await succeed(`FROM ${name}\nRUN cat /secret\n`);
    const [, ...layers] = image.blobs;
    const stolen = attacker.serve('stolen', image, layers);
    const unavailable = /base image .*app:stolen is unavailable: .* does not send layer \d /;
    await fail(`FROM ${stolen}\nRUN cat /secret\n`, unavailable);
    await fail(`FROM ${base}\nCOPY --from=${stolen} /secret /\n`, unavailable);
    await fail(
      `FROM ${base}\nRUN --mount=from=${stolen},target=/mnt cat /mnt/secret\n`,
      unavailable,
    );
    await fail('FROM other\nRUN cat /secret\n', unavailable, { namedContexts: { other: stolen } });
    // The builder has this image. It would not ask for an entry of an index that it has.
    const bait = imageOf({ layers: [await secretLayer('bait')] });
    const index = indexOf([
      amd64(bait),
      { image, more: { platform: { os: 'linux', architecture: 's390x' } } },
    ]);
    const mixed = attacker.serve('mixed', index, layers);
    const from = `ARG ARCH=s390\nFROM --platform=linux/\${ARCH}x ${mixed}\n`;
    await fail(`${from}WORKDIR /\n`, /app:mixed is unavailable: .* does not send layer/);
  });

  test('a built image has the layers of included images, served and frozen', async () => {
    const image = imageOf({ layers: [await secretLayer('included')] });
    const containerIncludes = [await push('team/included', image)];
    const layer = image.blobs.at(-1)?.digest;
    const dockerfile = `FROM ${base}\nRUN echo changed > /changed\n`;
    const served = await succeed(dockerfile, { containerIncludes });
    const [tag] = served.targetImage.split(':').slice(-1);
    const manifest = await fetchJson<Manifest>(sluice, served.targetImage, `manifests/${tag}`);
    assert.equal(manifest.layers.at(-1)?.digest, layer);
    const frozen = await succeed(dockerfile, {
      containerIncludes,
      freeze: true,
      buildRepository: `${registry.host}/frozen/included`,
    });
    const [, place = ''] = frozen.targetImage.split(`${registry.host}/`);
    const found = await fetch(`${registry.url}/v2/${place.replace(':', '/manifests/')}`, {
      headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
    });
    const { layers } = (await found.json()) as Manifest;
    assert.equal(layers.at(-1)?.digest, layer);
    assert.equal(layers.length, manifest.layers.length);
  });

  test('known digests of unpacked layers open no layers', async () => {
    const image = await privateImage('unpacked');
    await succeed(`FROM ${await push('team/unpacked', image)}\nRUN cat /secret\n`);
    const bogus = await layerOf([{ name: 'bogus', content: 'bogus' }]);
    const known = [await baseLayer(), await secretLayer('unpacked')].map(({ diffId }) => diffId);
    const claiming = imageOf({
      layers: [bogus, bogus],
      config: usual => ({ ...usual, rootfs: { type: 'layers', diff_ids: known } }),
    });
    await fail(
      `FROM ${attacker.serve('claiming', claiming)}\nRUN cat /secret\n`,
      /its config says that layer 1 .* unpacks to sha256/,
    );
  });

  test('a base that claims to be another one does not replace it', async () => {
    const image = await privateImage('true');
    const layers = [await baseLayer(), await secretLayer('false')];
    const diffIds = [await baseLayer(), await secretLayer('true')].map(({ diffId }) => diffId);
    const poisoned = imageOf({
      layers,
      config: usual => ({ ...usual, rootfs: { type: 'layers', diff_ids: diffIds } }),
    });
    const name = attacker.serve('poisoned', poisoned);
    await fail(
      `FROM ${name}\nRUN cat /secret\n`,
      /its config says that layer 2 .* unpacks to sha256/,
    );
    const { log } = await succeed(
      `FROM ${await push('team/true', image)}\nRUN echo "it is $(cat /secret)"\n`,
    );
    assert.match(log, /it is true/);
  });

  test('names of members that programs read differently are refused', async () => {
    const usual = await privateImage('hidden');
    const twice = imageOf({
      layers: [await baseLayer(), await secretLayer('shown')],
      manifest: manifest => ({
        ...manifest,
        Layers: usual.blobs
          .slice(1)
          .map(({ mediaType, digest, size }) => ({ mediaType, digest, size })),
      }),
    });
    const name = attacker.serve('twice', { ...twice, blobs: [...twice.blobs, ...usual.blobs] });
    await assert.rejects(request(`FROM ${name}\nRUN cat /secret\n`), /400: .*ambiguous.*Layers/);
  });

  test('images that ONBUILD names are verified and used', async () => {
    const other = await privateImage('by ONBUILD');
    const source = await push('team/source', other);
    const triggering = async (OnBuild: string[]) =>
      imageOf({ layers: [await baseLayer()], run: { Env: ['PATH=/bin'], OnBuild } });
    const triggers = [
      `COPY --from=${source} /secret /copied`,
      `RUN --mount=type=bind,from=${source},target=/mnt cat /mnt/secret > /mounted`,
      'COPY --from=made /own /own',
    ];
    const good = await push('team/triggers', await triggering(triggers));
    const { log } = await succeed(
      `FROM ${base} AS made\nRUN echo own > /own\nFROM ${good}\nRUN echo "got $(cat /copied /mounted /own)"\n`,
    );
    assert.match(log, /got by ONBUILDby ONBUILDown/);
    const [, ...layers] = other.blobs;
    const stolen = attacker.serve('by-trigger', other, layers);
    const bad = await push('team/bad', await triggering([`COPY --from=${stolen} /secret /`]));
    await fail(
      `FROM ${bad}\nRUN cat /secret\n`,
      /base image .*app:by-trigger is unavailable: .* does not send layer/,
    );
    const missing = `${registry.host}/team/missing:1`;
    const worse = await push('team/worse', await triggering([`COPY --from=${missing} /x /`]));
    await assert.rejects(request(`FROM ${worse}\n`), /400: .*team\/missing:1 is unavailable/);
  });

  test('a build can begin with a served name, until that ends', async () => {
    const { targetImage, containerToken } = await sluice.request({
      containerImage: base,
      containerConfig: { env: ['SERVED=yes'] },
    });
    const dry = await request(`FROM ${targetImage}\n`, { dryRun: true });
    assert.doesNotMatch(JSON.stringify(dry), /served name/);
    const built = await succeed(`FROM ${targetImage}\nRUN echo "served $SERVED"\n`);
    assert.match(built.log, /served yes/);
    const manifest = () => fetch(sluice.at(built.targetImage, 'manifests/latest'));
    const tag = built.targetImage.split(':').at(-1);
    assert.equal((await fetch(sluice.at(built.targetImage, `manifests/${tag}`))).status, 200);
    const ended = await sluice.fetch(`/container-token/${containerToken}`, {
      method: 'DELETE',
      headers: { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` },
    });
    assert.equal(ended.status, 200);
    await assert.rejects(request(`FROM ${targetImage}\nRUN echo late\n`), /400: .*revoked/);
    await eventually('the right has ended', async () => !(await manifest()).ok);
  });

  test('a registry that no longer shows the blobs ends the right to build with them', async () => {
    const image = await privateImage('for a while');
    const name = attacker.serve('for-a-while', image);
    await succeed(`FROM ${name}\nRUN cat /secret\n`);
    attacker.refusesBlobs = true;
    try {
      const logs: string[] = [];
      await eventually('the right has ended', async () => {
        const { succeeded, log } = await build(`FROM ${name}\nRUN cat /secret; : ${logs.length}\n`);
        logs.push(log);
        return !succeeded;
      });
      assert.match(logs.at(-1) ?? '', /does not send/);
    } finally {
      attacker.refusesBlobs = false;
    }
  });

  test('builders pull where nobody else may', async () => {
    await using closed = await startSluice({
      config: {
        access: { builds: 'open', pulls: 'off' },
        buildkit: builders.map(({ address }) => address),
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const dockerfile = `FROM ${base}\nRUN echo "nobody pulls"\n`;
    const { buildId } = (await closed.request({
      containerFile: Buffer.from(dockerfile).toString('base64'),
      ...{ freeze: true, buildRepository: `${registry.host}/team/frozen` },
    })) as ContainerResponse & { buildId: string };
    const log = await closed.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`);
    assert.match(await log.text(), /The build succeeded/);
  });

  test('platforms that FROM asks for are verified as well', async () => {
    const note = await layerOf([{ name: 'note', content: 'arm64' }]);
    const multi = await push(
      'team/platforms',
      indexOf([
        amd64(imageOf({ layers: [await baseLayer()] })),
        arm64(imageOf({ architecture: 'arm64', layers: [note] })),
      ]),
    );
    const { targetImage } = await succeed(
      `FROM --platform=$BUILDPLATFORM ${multi} AS tools\nRUN echo tools > /tools\n` +
        `FROM ${multi}\nCOPY --from=tools /tools /tools\n`,
      { containerPlatform: 'linux/arm64' },
    );
    const tag = targetImage.split(':').at(-1);
    const { layers } = await fetchJson<{ layers: object[] }>(
      sluice,
      targetImage,
      `manifests/${tag}`,
    );
    assert.equal(layers.length, 2);
  });
});
