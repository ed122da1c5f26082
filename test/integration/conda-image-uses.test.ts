/** Images of Conda packages do what all images do: frozen, changed, inspected, forecast and named. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { bytesOf } from '../corpus/content.ts';
import { layerOf } from '../corpus/layer.ts';
import { runWithPodman } from '../world/clients.ts';
import { type CondaChannels, startCondaChannels } from '../world/conda-channels.ts';
import { library, program } from '../world/conda-programs.ts';
import { pushDebianImage } from '../world/debian-image.ts';
import { tocAnnotation, verifyEstargz } from '../world/estargz.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { assertSuccess } from './served.ts';

interface CondaResponse {
  readonly targetImage: string;
  readonly buildId: string;
}
interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly {
    readonly digest: string;
    readonly mediaType: string;
    readonly annotations?: Readonly<Record<string, string>>;
  }[];
}

suite('uses of Conda images', () => {
  let registry: Registry;
  let sluice: Sluice;
  let baseImage: string;
  let served: CondaChannels;
  let root: Root;

  before(async () => {
    registry = await startRegistry();
    await pushDebianImage(registry, 'debian');
    baseImage = `${registry.host}/debian:1`;
    served = await startCondaChannels({
      'conda-forge': [program('procps-ng', '4.0'), library('1')],
      bioconda: ['one', 'two', 'three'].map(name =>
        program(name, '1', { depends: ['library >=1'] }),
      ),
    });
    sluice = await startSluice({
      config: {
        limits: { builds: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
        channels: served.settings,
      },
    });
    root = await openRoot('forky');
  });
  after(async () => {
    await root?.close();
    await sluice?.stop();
    await served?.stop();
    await registry?.stop();
  });

  const request = async (entries: readonly string[], more: object = {}) =>
    (await sluice.request({
      packages: { type: 'CONDA', entries, condaOpts: { baseImage } },
      ...more,
    })) as unknown as CondaResponse;
  const logOf = async ({ buildId }: CondaResponse) => {
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    assert.match(log, /The build succeeded/);
    return log;
  };
  const manifestOf = async ({ targetImage }: CondaResponse) => {
    const [host = '', ...path] = targetImage.split('/');
    const [repository, tag] = path.join('/').split(':');
    const response = await fetch(`http://${host}/v2/${repository}/manifests/${tag}`, {
      headers: { accept: 'application/vnd.oci.image.manifest.v1+json, */*' },
    });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as Manifest;
  };
  const digestsOf = ({ layers }: Manifest) => layers.map(({ digest }) => digest);

  test('a frozen image pushes only the layers that its repository does not have', async () => {
    const place = { freeze: true, buildRepository: `${registry.host}/team/frozen` };
    const first = await request(['one'], place);
    await logOf(first);
    const second = await request(['one', 'two'], place);
    const log = await logOf(second);
    const pushed = [...log.matchAll(/(sha256:[0-9a-f]{64}) \([^()]+\): (\w+)$/gm)];
    const sent = pushed.filter(([, , how]) => how === 'sent').map(([, digest]) => digest);
    const before = new Set(digestsOf(await manifestOf(first)));
    const image = await manifestOf(second);
    const added = digestsOf(image).filter(digest => !before.has(digest));
    // The new package and the history.
    assert.equal(added.length, 2);
    assert.deepEqual(sent.sort(), [...added, image.config.digest].sort(), log);
    assert.equal(pushed.length, image.layers.length + 1);
  });

  test('layers and a config of the request are on top of the packages', async () => {
    const { content, diffId } = await layerOf([{ name: 'added', content: 'on top' }]);
    const plain = await request(['one']);
    await logOf(plain);
    const changed = await request(['one'], {
      containerConfig: {
        env: ['ADDED=1'],
        entrypoint: ['/opt/conda/bin/one'],
        layers: [
          {
            location: `data:${bytesOf(content).toString('base64')}`,
            ...{ gzipDigest: content.digest, gzipSize: content.size, tarDigest: diffId },
          },
        ],
      },
    });
    await logOf(changed);
    const image = await manifestOf(changed);
    assert.deepEqual(digestsOf(image), [...digestsOf(await manifestOf(plain)), content.digest]);
    const inspected = await sluice.fetch('/v1alpha1/inspect', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ containerImage: changed.targetImage }),
    });
    const { container } = (await inspected.json()) as {
      container: {
        manifest: Manifest;
        config: { config: { env: string[]; entrypoint: string[] } };
      };
    };
    assert.deepEqual(digestsOf(container.manifest), digestsOf(image));
    const { env, entrypoint } = container.config.config;
    assert.ok(env.includes('ADDED=1') && env.includes('CONDA_PREFIX=/opt/conda'), `${env}`);
    assert.ok(env.some(entry => entry.startsWith('PATH=/opt/conda/bin:')));
    assert.deepEqual(entrypoint, ['/opt/conda/bin/one']);
  });

  test('a dry run lists versions, sizes and what is there already, and makes nothing', async () => {
    await logOf(await request(['one']));
    const asked = () => request(['one', 'three'], { dryRun: true }) as Promise<unknown>;
    const forecast = (await asked()) as {
      cached: boolean;
      solution: {
        platforms: {
          platform: string;
          packages: { name: string; version: string; size: number; cached: boolean }[];
        }[];
      };
    };
    const [{ platform, packages } = { platform: '', packages: [] }] = forecast.solution.platforms;
    assert.equal(platform, 'linux/amd64');
    assert.equal(forecast.cached, false);
    assert.deepEqual(packages.map(({ name, version, cached }) => [name, version, cached]).sort(), [
      ['library', '1', true],
      ['one', '1', true],
      ['procps-ng', '4.0', true],
      ['three', '1', false],
    ]);
    assert.ok(packages.every(({ size }) => size > 100));
    const again = (await asked()) as typeof forecast;
    assert.deepEqual(again.solution, forecast.solution, 'the first one has made nothing');
  });

  test('layers in zstd have the files of those in gzip, for every reader, and so has the base image on request', async () => {
    const place = { freeze: true, buildRepository: `${registry.host}/team/zstd` };
    const asked = (force: boolean) =>
      request(['two'], { ...place, buildCompression: { mode: 'zstd', level: 9, force } });
    const [usual, onBase, whole] = [
      await request(['two'], place),
      await asked(false),
      await asked(true),
    ];
    for (const one of [usual, onBase, whole]) await logOf(one);
    const configOf = async ({ config: { digest } }: Manifest) => {
      const response = await fetch(`${registry.url}/v2/team/zstd/blobs/${digest}`);
      return (await response.json()) as { rootfs: object };
    };
    const plain = await manifestOf(usual);
    const zstd = 'application/vnd.oci.image.layer.v1.tar+zstd';
    for (const [made, first] of [
      [onBase, 'application/vnd.oci.image.layer.v1.tar+gzip'],
      [whole, zstd],
    ] as const) {
      const image = await manifestOf(made);
      const others = plain.layers.slice(1).map(() => zstd);
      assert.deepEqual(
        image.layers.map(({ mediaType }) => mediaType),
        [first, ...others],
      );
      assert.deepEqual((await configOf(image)).rootfs, (await configOf(plain)).rootfs);
      const ran = await runWithPodman(root, made.targetImage, { command: ['two'] });
      assert.match(assertSuccess(ran), /two|library/);
    }
    const order = ['files', whole.targetImage, '--layer', '1', '--name', 'os-release'];
    const { stdout } = await sluiceCommand(order, { SLUICE_SERVER: sluice.url });
    assert.match(stdout, /usr\/lib\/os-release/);
  });

  test('layers in the eStargz form are lazy where they are frozen, and in every image made of them', async () => {
    const lazy = { buildCompression: { mode: 'estargz' } };
    const place = { freeze: true, buildRepository: `${registry.host}/team/lazy` };
    const usual = await request(['two'], place);
    await logOf(usual);
    const frozen = await request(['two'], { ...place, ...lazy });
    assert.notEqual(frozen.targetImage, usual.targetImage);
    assert.match(await logOf(frozen), /Compress the layers of the base image/);
    const before = await manifestOf(usual);
    const image = await manifestOf(frozen);
    assert.equal(image.layers.length, before.layers.length);
    const paths: string[] = [];
    for (const { digest, annotations } of image.layers) {
      const response = await fetch(`${registry.url}/v2/team/lazy/blobs/${digest}`);
      const bytes = Buffer.from(await response.arrayBuffer());
      const nodes = await verifyEstargz(bytes, annotations?.[tocAnnotation] ?? '');
      paths.push(...nodes.map(({ path }) => path));
    }
    assert.ok(paths.includes('etc/os-release') || paths.includes('usr/lib/os-release'));
    assert.ok(
      paths.includes('opt/conda/bin/two') && paths.includes('opt/conda/conda-meta/history'),
    );

    const kept = await request(['two'], {
      ...place,
      buildCompression: { mode: 'estargz', force: false },
    });
    assert.match(await logOf(kept), /The base image is not in the eStargz form/);
    const partly = await manifestOf(kept);
    assert.equal(partly.layers[0]?.digest, before.layers[0]?.digest);
    assert.deepEqual(partly.layers.slice(1), image.layers.slice(1));
    const other = await request(['one'], { ...place, ...lazy });
    await logOf(other);
    assert.deepEqual((await manifestOf(other)).layers[0], image.layers[0]);

    const { content, diffId } = await layerOf([{ name: 'added', content: 'on top' }]);
    const layer = {
      location: `data:${bytesOf(content).toString('base64')}`,
      ...{ gzipDigest: content.digest, gzipSize: content.size, tarDigest: diffId },
    };
    const changed = (await sluice.request({
      containerImage: frozen.targetImage,
      containerConfig: { env: ['ADDED=1'], layers: [layer] },
    })) as unknown as CondaResponse;
    const served = await manifestOf(changed);
    assert.deepEqual(served.layers.slice(0, -1), image.layers);
    assert.equal(served.layers.at(-1)?.digest, content.digest);
    assert.equal(
      assertSuccess(
        await runWithPodman(root, changed.targetImage, {
          command: ['sh', '-c', 'two && cat /added'],
        }),
      ),
      'two 1\nlibrary 1 below /opt/conda\non top',
    );
  });

  test('its name is known without a server', async () => {
    const form = ['--compression', 'estargz:5'];
    const words = ['--conda', 'one', '--conda', 'two', '--base-image', baseImage, ...form];
    const environment = { SLUICE_SERVER: sluice.url };
    const named = await sluiceCommand(['name', ...words], environment);
    const built = await sluiceCommand(['build', ...words, '--await', '--json'], environment);
    const { containerImage } = JSON.parse(assertSuccess(built));
    assert.equal(assertSuccess(named).trim(), containerImage);
    assert.match(containerImage, /\/builds:one_two--[0-9a-f]{32}$/);
    const kept = await sluiceCommand(['name', ...words, '--keep-base-layers'], environment);
    assert.notEqual(assertSuccess(kept).trim(), containerImage);
  });
});
