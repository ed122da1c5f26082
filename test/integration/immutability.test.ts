/** A served name is pinned to a digest when it is requested. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, sha256 } from '../corpus/content.ts';
import { makeImage } from '../corpus/corpus.ts';
import { Pusher } from '../corpus/push.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { pull } from '../world/clients.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess, change, fetchJson, injected, plainRegistries } from './served.ts';

interface Manifest {
  readonly config: { digest: string };
  readonly layers: readonly { digest: string }[];
  readonly manifests?: readonly { digest: string }[];
}

const tag = 'moving';

async function push(registry: Registry, image: string): Promise<void> {
  const pusher = await Pusher.open(registry, 'corpus/moving');
  await pusher.push(await makeImage(image), tag);
  await pusher.close();
}

function request(registry: Registry, sluice: Sluice, more: object = { containerConfig: change }) {
  return sluice.request({ containerImage: `${registry.host}/corpus/moving:${tag}`, ...more });
}

/** Returns the digest of a tag or digest of the name, computed from the bytes. */
async function served(sluice: Sluice, { targetImage }: ContainerResponse, reference: string) {
  const response = await fetch(sluice.at(targetImage, `manifests/${reference}`));
  assert.equal(response.status, 200, `${reference}: ${response.status}`);
  return sha256(Buffer.from(await response.arrayBuffer()));
}

for (const [first, second] of [
  ['cfg:full', 'cfg:cmd-only'],
  ['multi:index', 'multi:list'],
] as const) {
  test(`a name keeps ${first} when its tag moves to ${second}`, async () => {
    await using registry = await startRegistry();
    await using data = await makeTempDir('data');
    const options = {
      config: plainRegistries(registry.host),
      data: data.join('state'),
      port: await freePort(),
    };
    let sluice = await startSluice(options);
    try {
      await push(registry, first);
      const before = await request(registry, sluice);
      const plain = await request(registry, sluice, {});
      await push(registry, second);
      const after = await request(registry, sluice);
      assert.notEqual(after.digest, before.digest);
      const check = async () => {
        assert.equal(plain.digest, (await makeImage(first)).root.digest);
        for (const response of [before, plain, after]) {
          assert.equal(await served(sluice, response, tag), response.digest);
          assert.equal(await served(sluice, response, response.digest), response.digest);
        }
      };
      await check();
      await using root = await openRoot('bookworm');
      for (const { targetImage } of [before, plain, after]) {
        assertSuccess(await pull(root, 'skopeo', targetImage));
      }
      await sluice.stop();
      sluice = await startSluice(options);
      await check();
    } finally {
      await sluice.stop();
    }
  });
}

test('stored content is served while the registry is down', async () => {
  await using registry = await startRegistry();
  await using data = await makeTempDir('data');
  const options = {
    config: plainRegistries(registry.host),
    data: data.join('state'),
    port: await freePort(),
  };
  let sluice = await startSluice(options);
  try {
    await push(registry, 'multi:index');
    const response = await request(registry, sluice);
    const unchanged = await request(registry, sluice, {});
    await registry.stop();
    const check = async () => {
      assert.equal(await served(sluice, unchanged, tag), unchanged.digest);
      const index = await fetchJson<Manifest>(sluice, response.targetImage, `manifests/${tag}`);
      assert.equal(index.manifests?.length, 2);
      for (const { digest } of index.manifests ?? []) {
        assert.equal(await served(sluice, response, digest), digest);
        const route = `manifests/${digest}`;
        const { config, layers } = await fetchJson<Manifest>(sluice, response.targetImage, route);
        const configBlob = await fetch(sluice.at(response.targetImage, `blobs/${config.digest}`));
        assert.equal(sha256(Buffer.from(await configBlob.arrayBuffer())), config.digest);
        assert.equal(layers.at(-1)?.digest, injected.gzipDigest);
        const base = await fetch(sluice.at(response.targetImage, `blobs/${layers[0]?.digest}`));
        assert.ok(base.status >= 500, `the layer of the base needs the registry: ${base.status}`);
        await base.arrayBuffer();
      }
      const layer = await fetch(sluice.at(response.targetImage, `blobs/${injected.gzipDigest}`));
      assertBytes(Buffer.from(await layer.arrayBuffer()), injected.bytes);
    };
    await check();
    await sluice.stop();
    sluice = await startSluice(options);
    await check();
  } finally {
    await sluice.stop();
  }
});

test('the bytes of the base match those of the registry', async () => {
  await using registry = await startRegistry();
  await push(registry, 'cfg:full');
  await using sluice = await startSluice({ config: plainRegistries(registry.host) });
  const { targetImage } = await request(registry, sluice);
  const { blobs } = await makeImage('cfg:full');
  for (const blob of blobs.slice(1)) {
    const response = await fetch(sluice.at(targetImage, `blobs/${blob.digest}`));
    assertBytes(Buffer.from(await response.arrayBuffer()), bytesOf(blob));
  }
});
