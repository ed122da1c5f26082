/** Clients without a daemon pull served images byte for byte; podman also runs them. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Client, clientsOf, pull, runWithPodman } from '../world/clients.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { suites } from '../world/tools.ts';
import {
  assertSuccess,
  caseImages,
  cases,
  fetchJson,
  injected,
  nameOfCase,
  outputOf,
  plainRegistries,
  requestCase,
} from './served.ts';

interface Manifest {
  readonly config: { digest: string };
  readonly layers: readonly { digest: string }[];
  readonly manifests?: readonly { digest: string; platform?: { architecture: string } }[];
}

/** The content that a client on the machine's platform must have at the end. */
interface Expected {
  readonly response: ContainerResponse;
  /** The manifest of linux/amd64, the root itself when there is no other. */
  readonly manifestDigest: string;
  readonly manifest: Manifest;
}

suite('daemonless clients', { concurrency: 2 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let pushed: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry();
    pushed = await pushCorpus(registry, [
      ...caseImages,
      ...['busybox:v2s2', 'layers:dup', 'artifact:subject', 'attest:latest'],
    ]);
    sluice = await startSluice({ config: plainRegistries(registry.host) });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const expect = async (response: ContainerResponse): Promise<Expected> => {
    const get = (digest: string) =>
      fetchJson<Manifest>(sluice, response.targetImage, `manifests/${digest}`);
    const root = await get(response.digest);
    const child = root.manifests?.find(({ platform }) => platform?.architecture === 'amd64');
    const manifestDigest = child?.digest ?? response.digest;
    const manifest = await get(manifestDigest);
    assert.equal(manifest.layers.at(-1)?.digest, injected.gzipDigest);
    return { response, manifestDigest, manifest };
  };

  test('oras finds and copies the referrers of served names', async () => {
    const request = async (image: string, containerConfig?: object) => {
      const containerImage = pushed.get(image)?.reference;
      return (await sluice.request({ containerImage, containerConfig })).targetImage;
    };
    await using root = await openRoot('forky');
    await assertReferrers(root, await request('artifact:subject'), 1);
    await assertReferrers(root, await request('cfg:full'), 0);
    await assertReferrers(root, await request('cfg:full', { env: ['A=1'] }), 0);
    await assertReferrers(root, await request('attest:latest', { env: ['A=1'] }), 0);
  });

  for (const name of suites) {
    test(`of ${name} receive the promised bytes`, async () => {
      await using root = await openRoot(name);
      for (const client of clientsOf(name)) {
        for (const one of cases) {
          // A separate name for each: podman and buildah share their pulled images.
          const expected = await expect(await requestCase(sluice, pushed, one));
          const { targetImage } = expected.response;
          const into = `/tmp/${expected.response.containerToken}`;
          const what = `${client}: ${nameOfCase(one)}`;
          assertSuccess(await pull(root, client, targetImage, { into }), what);
          const place = join(root.directory, into);
          await checks[client]({ root, place, name: targetImage, expected, what });
        }
      }
    });

    test(`podman of ${name} runs the image`, async () => {
      await using root = await openRoot(name);
      for (const one of cases) {
        const { targetImage } = await requestCase(sluice, pushed, one);
        const what = nameOfCase(one);
        assert.equal(
          assertSuccess(await runWithPodman(root, targetImage), what),
          outputOf(one),
          what,
        );
      }
      if (name !== 'forky') return;
      const [containerImage, included] = ['busybox:v2s2', 'layers:dup'].map(
        image => pushed.get(image)?.reference,
      );
      const { targetImage } = await sluice.request({
        containerImage,
        containerIncludes: [included],
      });
      const command = ['cat', '/notes/twice', '/notes/between'];
      const ran = await runWithPodman(root, targetImage, { command });
      assert.equal(assertSuccess(ran, 'included files'), 'twice\nbetween\n');
    });
  }
});

/** A registry without the referrers API, and the tag that replaces it. */
async function assertReferrers(root: Root, name: string, expected: number): Promise<void> {
  const discover = ['oras', 'discover', '--plain-http', '--format', 'json', name];
  const found = JSON.parse(assertSuccess(await root.exec(discover), name)) as {
    manifests?: object[];
    referrers?: object[];
  };
  assert.equal((found.referrers ?? found.manifests ?? []).length, expected, name);
  const layout = `/tmp/referrers-${name.replaceAll(/[^a-z0-9]/g, '-')}:all`;
  const copy = ['oras', 'copy', '-r', '--from-plain-http', '--to-oci-layout', name, layout];
  assertSuccess(await root.exec(copy), name);
}

interface Pull {
  readonly root: Root;
  readonly place: string;
  readonly name: string;
  readonly expected: Expected;
  readonly what: string;
}

type Check = (pull: Pull) => Promise<void>;

const inLayout: Check = async ({ place, expected, what }) => {
  const { response, manifest, manifestDigest } = expected;
  const index = JSON.parse(await readFile(join(place, 'index.json'), 'utf8')) as Manifest;
  // oras lists what is below the root too.
  const roots = index.manifests?.map(({ digest }) => digest);
  assert.ok(roots?.includes(response.digest), `${what}: ${roots}`);
  const blobs = await contents(join(place, 'blobs/sha256'));
  for (const digest of blobs.keys()) {
    assert.equal(`sha256:${digest}`, blobs.get(digest), what);
  }
  const wanted = [response.digest, manifestDigest, manifest.config.digest];
  for (const digest of [...wanted, ...manifest.layers.map(layer => layer.digest)]) {
    assert.ok(blobs.has(digest.slice('sha256:'.length)), `${what}: ${digest} is missing`);
  }
};

const inStore: Check = async ({ root, name, expected, what }) => {
  const format = '{{.Id}} {{json .RepoDigests}}';
  const command = ['podman', 'image', 'inspect', '--format', format, name];
  const found = assertSuccess(await root.exec(command), what);
  const { response, manifest, manifestDigest } = expected;
  const [id = '', names = '[]'] = found.split(' ');
  assert.equal(`sha256:${id}`, manifest.config.digest, what);
  const digests = (JSON.parse(names) as string[]).map(known => known.split('@')[1]);
  assert.ok(digests.includes(manifestDigest), `${what}: ${names}`);
  assert.ok(digests.includes(response.digest), `${what}: ${names}`);
};

const checks: Readonly<Record<Client, Check>> = {
  podman: inStore,
  buildah: inStore,
  async skopeo({ place, expected, what }) {
    const files = await contents(place);
    const { manifest, manifestDigest } = expected;
    assert.equal(files.get('manifest.json'), manifestDigest, what);
    for (const { digest } of [manifest.config, ...manifest.layers]) {
      assert.equal(files.get(digest.slice('sha256:'.length)), digest, what);
    }
  },
  async crane({ root, place, name, expected, what }) {
    const digest = await root.exec(['crane', 'digest', '--insecure', name]);
    assert.equal(assertSuccess(digest, what).trim(), expected.response.digest, what);
    // The tar of `docker save`, with its own manifest.json.
    const list = await root.exec([
      'tar',
      '-xOf',
      place.slice(root.directory.length),
      'manifest.json',
    ]);
    const [image] = JSON.parse(assertSuccess(list, what)) as { Config: string; Layers: string[] }[];
    const { manifest } = expected;
    assert.equal(image?.Config, manifest.config.digest, what);
    const files = manifest.layers.map(layer => `${layer.digest.slice('sha256:'.length)}.tar.gz`);
    assert.deepEqual(image?.Layers, files, what);
  },
  oras: inLayout,
  cosign: inLayout,
};

/** The digest of each file in a folder, by name. */
async function contents(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of await readdir(folder)) {
    const hash = createHash('sha256').update(await readFile(join(folder, name)));
    found.set(name, `sha256:${hash.digest('hex')}`);
  }
  return found;
}
