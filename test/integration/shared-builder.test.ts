/** One builder for users who must be separated: its stored content, and its caches. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

interface BuildResponse extends ContainerResponse {
  readonly buildId: string;
}

interface Part {
  digest: string;
  size: number;
  annotations?: Record<string, string>;
}

interface CacheConfig {
  readonly layers: { blob: string; parent?: number }[];
}

suite('a shared builder', { concurrency: 1 }, () => {
  let open: Registry;
  let closed: Registry;
  let first: Buildkitd;
  let second: Buildkitd;
  let privileged: Sluice;
  let other: Sluice;
  let trusting: Sluice;
  let base: Pushed;
  let secret: Pushed;
  let keys: TempDir;

  before(async () => {
    keys = await makeTempDir('keys');
    open = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    base = await only(open);
    secret = await only(closed);
    first = await startBuildkitd();
    second = await startBuildkitd();
    privileged = await start(first, { username: 'tester', password: 'sesame', anonymous: true });
    other = await start(first, {});
    trusting = await start(second, {}, { trustCaches: true });
  });
  after(async () => {
    for (const server of [trusting, other, privileged]) await server?.stop();
    for (const builder of [second, first]) await builder?.stop();
    for (const registry of [closed, open]) await registry?.stop();
    await keys?.remove();
  });

  const only = async (registry: Registry): Promise<Pushed> => {
    const pushed = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci');
    assert.ok(pushed);
    return pushed;
  };
  const start = (builder: Buildkitd, account: object, builds = {}) =>
    startSluice({
      // Servers with equal keys give their callers equal labels in a cache.
      env: { SLUICE_REPLICA_KEYS: keys.path },
      config: {
        accounts: { admin: 'secret' },
        buildkit: [builder.address],
        builds,
        limits: { builds: { anonymous: 'off' } },
        registries: {
          [open.host]: { plainHttp: true },
          [closed.host]: { plainHttp: true, ...account },
        },
      },
    });
  const request = async (server: Sluice, text: string, more = {}): Promise<BuildResponse> => {
    const containerFile = Buffer.from(text).toString('base64');
    return (await server.request({ containerFile, ...more })) as BuildResponse;
  };
  const logOf = async (server: Sluice, { buildId }: BuildResponse): Promise<string> =>
    (await server.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
  /** A repository of the open registry. */
  const repositoryOf = (name: string) => {
    const url = `${open.url}/v2/${name}`;
    return {
      async get(route: string) {
        const response = await fetch(`${url}/${route}`, { headers: { accept: manifestAccept } });
        assert.equal(response.status, 200, route);
        const bytes = Buffer.from(await response.arrayBuffer());
        return { bytes, type: response.headers.get('content-type') ?? '' };
      },
      async putBlob(bytes: Buffer) {
        const begun = await fetch(`${url}/blobs/uploads/`, { method: 'POST' });
        const place = new URL(begun.headers.get('location') ?? '', open.url);
        const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
        place.searchParams.set('digest', digest);
        assert.equal((await fetch(place, { method: 'PUT', body: bytes })).status, 201);
        return { digest, size: bytes.length };
      },
      async putManifest(tag: string, type: string, manifest: object) {
        const body = JSON.stringify(manifest);
        const headers = { 'content-type': type };
        const response = await fetch(`${url}/manifests/${tag}`, { method: 'PUT', headers, body });
        assert.equal(response.status, 201);
      },
    };
  };

  for (const [name, trigger] of [
    ['COPY', (image: string) => `COPY --from=${image} /bin/busybox /stolen`],
    ['RUN', (image: string) => `RUN --mount=from=${image},target=/s cp /s/bin/busybox /stolen`],
  ] as const) {
    test(`ONBUILD ${name} of a base image takes nothing from an image that the caller may not pull`, async () => {
      const [, path = ''] = /^[^/]+\/(.*):[^:]+$/.exec(base.reference) ?? [];
      const repository = repositoryOf(path);
      const pinned = `${closed.host}/${path}@${secret.digest}`;
      const done = await request(privileged, `FROM ${pinned}\nRUN echo ${name} > /x\n`);
      assert.doesNotMatch(await logOf(privileged, done), /failed/, 'the builder has it');

      const { bytes, type } = await repository.get(`manifests/${base.digest}`);
      const manifest = JSON.parse(bytes.toString());
      const config = JSON.parse(
        (await repository.get(`blobs/${manifest.config.digest}`)).bytes.toString(),
      );
      config.config = { ...config.config, OnBuild: [trigger(pinned)] };
      const bait = await repository.putBlob(Buffer.from(JSON.stringify(config)));
      Object.assign(manifest.config, bait);
      await repository.putManifest(`bait-${name.toLowerCase()}`, type, manifest);

      const image = `${open.host}/${path}:bait-${name.toLowerCase()}`;
      await assert.rejects(
        request(other, `FROM ${image}\nRUN true\n`),
        /400: .*base image .*@sha256:.* is unavailable: .* refused access/,
      );
    });
  }

  /** Puts another layer into a cache in place of the one that the last step made. */
  const poison = async (name: string): Promise<void> => {
    const repository = repositoryOf(name);
    const { bytes, type } = await repository.get('manifests/latest');
    const manifest = JSON.parse(bytes.toString()) as { config: Part; layers: Part[] };
    const config = JSON.parse(
      (await repository.get(`blobs/${manifest.config.digest}`)).bytes.toString(),
    ) as CacheConfig;
    await using directory = await makeTempDir('poison');
    await writeFile(directory.join('made'), 'poison\n');
    const tar = execFileSync('tar', ['-C', directory.path, '-c', 'made']);
    const layer = await repository.putBlob(gzipSync(tar));
    const step = config.layers.find(({ parent }) => parent !== -1);
    const part = manifest.layers.find(({ digest }) => digest === step?.blob);
    assert.ok(step && part?.annotations);
    const unpacked = `sha256:${createHash('sha256').update(tar).digest('hex')}`;
    Object.assign(part, layer, { mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip' });
    part.annotations['containerd.io/uncompressed'] = unpacked;
    step.blob = layer.digest;
    Object.assign(manifest.config, await repository.putBlob(Buffer.from(JSON.stringify(config))));
    await repository.putManifest('latest', type, manifest);
  };
  /** Returns the content of the file in the last layer of a built image. */
  const madeIn = async (server: Sluice, { targetImage }: BuildResponse): Promise<string> => {
    const tag = targetImage.split(':').at(-1);
    const manifest = await fetch(server.at(targetImage, `manifests/${tag}`));
    const { layers } = (await manifest.json()) as { layers: Part[] };
    const blob = await fetch(server.at(targetImage, `blobs/${layers.at(-1)?.digest}`));
    const input = Buffer.from(await blob.arrayBuffer());
    return execFileSync('tar', ['-xzO', '--wildcards', '*made'], { input }).toString();
  };

  test('files in a cache mount are not available to another recipe', async () => {
    const mount = 'RUN --mount=type=cache,target=/root/.cache';
    const left = `FROM ${base.reference}\n${mount} echo poison > /root/.cache/wheel\n`;
    assert.doesNotMatch(await logOf(privileged, await request(privileged, left)), /failed/);
    const found = `FROM ${base.reference}\n${mount} ls -A /root/.cache > /made\n`;
    assert.equal(await madeIn(other, await request(other, found)), '');
  });

  test('a cache that others can write is not used, unless the operator trusts all callers', async () => {
    const text = `FROM ${base.reference}\nRUN echo good > /made\n`;
    const cacheRepository = `${open.host}/somebody/cache`;
    await logOf(trusting, await request(trusting, text, { cacheRepository }));
    await poison('somebody/cache');
    const response = await request(other, text, { cacheRepository });
    assert.doesNotMatch(await logOf(other, response), /importing cache|failed/);
    assert.equal(await madeIn(other, await request(other, text)), 'good\n');

    await using third = await startBuildkitd();
    await using credulous = await start(third, {}, { trustCaches: true });
    await poison('somebody/cache');
    const taken = await request(credulous, text, { cacheRepository });
    assert.match(await logOf(credulous, taken), /importing cache manifest/);
    assert.equal(await madeIn(credulous, taken), 'poison\n', 'the setting allows this');
  });
});
