/** `containerIncludes`: layers of other images are added to the requested one, with the rights of the caller. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { digestOf } from '../../src/oci/digest.ts';
import type { Content } from '../corpus/content.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { postJson } from '../faults/fault-world.ts';
import { assertApiFault, call } from '../faults/http-client.ts';
import {
  emptyLayer,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../faults/scripted-upstream.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { eventually } from '../world/eventually.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const bytesOf = ({ read }: Content) => Buffer.concat([...read()]);

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string; readonly mediaType: string }[];
  readonly manifests: readonly {
    readonly digest: string;
    readonly platform: { architecture: string };
  }[];
}

suite('included images', { concurrency: 1 }, () => {
  let open: Registry;
  let closed: Registry;
  let liar: ScriptedUpstream;
  let sluice: Sluice;
  let images: Map<string, Pushed>;

  before(async () => {
    open = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    liar = await startScriptedUpstream();
    images = await pushCorpus(open, ['busybox', 'multi', 'layers', 'attest']);
    await pushCorpus(closed, ['layers:dup']);
    const hosts = [open.host, closed.host, liar.host];
    sluice = await startSluice({
      config: {
        rightLife: '300ms',
        freezeRepository: `${open.host}/frozen`,
        accounts: { admin: 'secret' },
        registries: {
          ...Object.fromEntries(hosts.map(host => [host, { plainHttp: true }])),
          [closed.host]: { plainHttp: true, blobs: 'cache' },
        },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await liar?.stop();
    await closed?.stop();
    await open?.stop();
  });

  const nameOf = (name: string, { host }: { host: string } = open) => `${host}/corpus/${name}`;
  const layersOf = (name: string, at = 0) => {
    const { children, root } = images.get(name)?.image ?? assert.fail(name);
    const manifest = JSON.parse(bytesOf(children[at] ?? root).toString()) as Manifest;
    return manifest.layers.map(({ digest }) => digest);
  };
  const ask = (body: object) => postJson(`${sluice.url}/v1alpha2/container`, body);
  const get = async (targetImage: string, route: string) => {
    const reply = await call(sluice.at(targetImage, route));
    assert.equal(reply.status, 200, reply.body.toString());
    return JSON.parse(reply.body.toString());
  };
  // Whole ones: of a layer that is here, one byte shows that the caller may read it.
  const blobsSent = () =>
    open.requests.filter(
      ({ method, path, status }) =>
        method === 'GET' && status === 200 && /\/layers\/blobs\//.test(path),
    );

  /** Creates a user with the credentials of the closed registry. */
  const userOfClosed = async (user: string) => {
    const platformAccessToken = await newAccessToken(
      sluice,
      { name: 'admin', password: 'secret' },
      user,
    );
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${platformAccessToken}`,
    };
    const { username: userName, password } = closed;
    const kept = await sluice.fetch('/platform/credentials', {
      method: 'POST',
      headers,
      body: JSON.stringify({
        credentials: { keys: { registry: closed.host, userName, password } },
      }),
    });
    const { credentialsId } = (await kept.json()) as { credentialsId: string };
    const removeCredentials = () =>
      sluice.fetch(`/platform/credentials/${credentialsId}`, { method: 'DELETE', headers });
    return { platformAccessToken, removeCredentials };
  };

  test('their layers are above those of the base and below those of the request', async () => {
    const body = {
      containerImage: nameOf('busybox:v2s2'),
      containerIncludes: [nameOf('layers:dup')],
      containerConfig: { layers: [{ location: `data:${emptyLayer.toString('base64')}` }] },
    };
    const { targetImage, requestId } = await sluice.request(body);
    const manifest = (await get(targetImage, 'manifests/v2s2')) as Manifest;
    assert.deepEqual(
      manifest.layers.map(({ digest }) => digest),
      [...layersOf('busybox:v2s2'), ...layersOf('layers:dup'), digestOf(emptyLayer)],
    );
    const types = new Set(manifest.layers.map(({ mediaType }) => mediaType));
    assert.deepEqual([...types], ['application/vnd.docker.image.rootfs.diff.tar.gzip']);
    const config = await get(targetImage, `blobs/${manifest.config.digest}`);
    assert.equal(config.rootfs.diff_ids.length, manifest.layers.length);
    const from = `${open.host}/corpus/layers@${images.get('layers:dup')?.digest}`;
    assert.ok(config.history[1].created_by.endsWith(` of ${from}`), config.history[1].created_by);
    for (const blob of images.get('layers:dup')?.image.blobs ?? []) {
      const { digest } = blob;
      if (!layersOf('layers:dup').includes(digest)) continue;
      assertBytes((await call(sluice.at(targetImage, `blobs/${digest}`))).body, bytesOf(blob));
    }
    const record = await (await sluice.fetch(`/v1alpha2/container/${requestId}`)).json();
    const { request } = record as { request: { containerIncludes: string[] } };
    assert.deepEqual(request.containerIncludes, body.containerIncludes);

    const sent = blobsSent().length;
    const again = await sluice.request(body);
    assert.equal(again.digest, (await sluice.request(body)).digest);
    assert.equal(blobsSent().length, sent, 'the layers are here');
    const onTop = await sluice.request({
      containerImage: targetImage,
      containerConfig: { env: ['A=1'] },
    });
    const changed = (await get(onTop.targetImage, 'manifests/v2s2')) as Manifest;
    assert.equal(changed.layers.length, manifest.layers.length);
  });

  test('each platform of an index gets the layers of its own', async () => {
    const { targetImage } = await sluice.request({
      containerImage: nameOf('multi:list'),
      containerIncludes: [nameOf('multi:index')],
    });
    const { manifests } = (await get(targetImage, 'manifests/list')) as Manifest;
    for (const [at, { digest, platform }] of manifests.entries()) {
      const { layers } = (await get(targetImage, `manifests/${digest}`)) as Manifest;
      const [layer] = layersOf('multi:index', at);
      assert.deepEqual(
        layers.map(({ digest }) => digest),
        [layer, layer],
        platform.architecture,
      );
    }
    // Attestations are no images.
    const attested = await sluice.request({
      containerImage: nameOf('attest:latest'),
      containerIncludes: [nameOf('attest:nested')],
    });
    assert.deepEqual(attested.warnings ?? [], []);
    const refused = {
      containerImage: nameOf('multi:list'),
      containerIncludes: [nameOf('multi:arm64only')],
    };
    assertApiFault(
      await ask(refused),
      400,
      /'containerIncludes\[0\]': .* has no image for linux\/amd64; it has: linux\/arm64/,
    );
    const one = await sluice.request({ ...refused, containerPlatform: 'linux/arm64' });
    assert.equal(((await get(one.targetImage, 'manifests/list')) as Manifest).layers.length, 2);
  });

  test('names and numbers that cannot be included are refused', async () => {
    const containerImage = nameOf('busybox:oci');
    const { targetImage } = await sluice.request({ containerImage });
    const many = Array.from({ length: 11 }, () => containerImage);
    for (const [containerIncludes, message] of [
      [[targetImage], /'containerIncludes\[0\]' is the served name/],
      [[containerImage, 'A B'], /'containerIncludes\[1\]'/],
      [many, /containerIncludes/],
      [[nameOf('layers:120'), nameOf('layers:60')], /more than 125 layers together/],
    ] as const) {
      assertApiFault(await ask({ containerImage, containerIncludes }), 400, message);
    }
  });

  for (const [name, message] of [
    ['busybox:missing', /'containerIncludes\[0\]': .*missing/],
  ] as const) {
    test(`${name} is refused with the reason`, async () => {
      const body = { containerImage: nameOf('busybox:oci'), containerIncludes: [nameOf(name)] };
      assertApiFault(await ask(body), 400, message);
    });
  }

  for (const name of ['layers:whiteout', 'busybox:oci-zstd', 'busybox:oci-tar']) {
    test(`${name} is included`, async () => {
      const body = { containerImage: nameOf('busybox:oci'), containerIncludes: [nameOf(name)] };
      const reply = await ask(body);
      assert.equal(reply.status, 200, reply.body.toString());
      const { targetImage } = JSON.parse(reply.body.toString());
      const { config, layers } = await get(targetImage, 'manifests/oci');
      const { rootfs } = await get(targetImage, `blobs/${config.digest}`);
      for (const [at, { digest }] of layers.entries()) {
        const { body: bytes } = await call(sluice.at(targetImage, `blobs/${digest}`));
        assert.equal(digestOf(gunzipSync(bytes)), rootfs.diff_ids[at]);
      }
    });
  }

  test('the right to an included image is required, and ends with the credentials', async () => {
    const body = {
      containerImage: nameOf('busybox:oci'),
      containerIncludes: [nameOf('layers:dup', closed)],
    };
    const refused = await ask(body);
    assert.ok([401, 403].includes(refused.status), refused.body.toString());
    const { platformAccessToken, removeCredentials } = await userOfClosed('ada@example.org');
    const { targetImage } = await sluice.request({ ...body, platformAccessToken });
    const { layers } = (await get(targetImage, 'manifests/oci')) as Manifest;
    assert.equal(layers.length, 5);
    // Others get neither the stored layers nor a change of the served name.
    assert.equal((await ask(body)).status, refused.status);
    const onTop = await ask({ containerImage: targetImage, containerConfig: { env: ['A=1'] } });
    assert.equal(onTop.status, refused.status, onTop.body.toString());
    // Everybody may pull from the repository of frozen images.
    const frozen = await ask({ ...body, platformAccessToken, freeze: true });
    assertApiFault(frozen, 400, /'freeze': .*corpus\/layers is private/);
    const dry = JSON.parse((await ask({ ...body, dryRun: true })).body.toString());
    assert.match(JSON.stringify(dry), /"canPull":false/);
    await removeCredentials();
    for (const route of ['manifests/oci', `blobs/${layers.at(-1)?.digest}`]) {
      await eventually('the right ends', async () => {
        const { status } = await call(sluice.at(targetImage, route));
        return status === 403 || status === 401;
      });
    }
  });

  test('a registry that names the layer of others without having it gets no copy', async () => {
    const { platformAccessToken } = await userOfClosed('grace@example.org');
    const asUser = { containerImage: nameOf('layers:dup', closed), platformAccessToken };
    // Two ways in which it is here: as a cached copy of a private blob, and as an included layer.
    const { targetImage: own } = await sluice.request(asUser);
    for (const digest of layersOf('layers:dup')) {
      assert.equal((await call(sluice.at(own, `blobs/${digest}`))).status, 200);
    }
    await sluice.request({
      containerImage: nameOf('busybox:oci'),
      containerIncludes: [nameOf('layers:dup')],
    });
    const [digest = ''] = layersOf('layers:dup').slice(1);
    const blob = images.get('layers:dup')?.image.blobs.find(one => one.digest === digest);
    const secret = bytesOf(blob ?? assert.fail());
    const diffId = digestOf(gunzipSync(secret));
    const repository = 'liar/app';
    liar.put(`${repository}/blobs/${digest}`, 'application/octet-stream', emptyLayer);
    const lie = (size: number, diffIds: readonly unknown[]) => {
      const config = Buffer.from(
        JSON.stringify({
          architecture: 'amd64',
          os: 'linux',
          config: {},
          rootfs: { type: 'layers', diff_ids: diffIds },
        }),
      );
      liar.put(`${repository}/blobs/${digestOf(config)}`, 'application/octet-stream', config);
      const type = 'application/vnd.oci.image.manifest.v1+json';
      const manifest = {
        schemaVersion: 2,
        mediaType: type,
        config: {
          mediaType: 'application/vnd.oci.image.config.v1+json',
          digest: digestOf(config),
          size: config.length,
        },
        layers: [{ mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', digest, size }],
      };
      const bytes = Buffer.from(JSON.stringify(manifest));
      for (const name of ['latest', digestOf(bytes)])
        liar.put(`${repository}/manifests/${name}`, type, bytes);
    };
    const theft = async () => {
      const reply = await ask({
        containerImage: nameOf('busybox:oci'),
        containerIncludes: [`${liar.host}/${repository}`],
      });
      if (reply.status >= 400) return;
      const { targetImage } = JSON.parse(reply.body.toString());
      const { status } = await call(sluice.at(targetImage, `blobs/${digest}`));
      assert.fail(`the layer is served with the status ${status}`);
    };
    // First it sends other bytes that its image describes rightly, but for the digest.
    lie(emptyLayer.length, [digestOf(gunzipSync(emptyLayer))]);
    await theft();
    liar.on(`HEAD /v2/${repository}/blobs/${digest}`, (_request, response) => {
      response.writeHead(200, { 'content-length': secret.length }).end();
    });
    for (const ids of [[diffId], [{ any: 'thing' }], [digestOf(gunzipSync(emptyLayer))]]) {
      lie(secret.length, ids);
      await theft();
      await theft();
    }
    // It sends nothing, or the beginning, until the caller has left.
    liar.on(`GET /v2/${repository}/blobs/${digest}`, (_request, response) => {
      response.writeHead(206, {
        'content-length': secret.length - 10,
        'content-range': `bytes 10-${secret.length - 1}/${secret.length}`,
      });
      response.end(Buffer.alloc(secret.length - 10));
    });
    lie(secret.length, [diffId]);
    await theft();
    // As the image itself, not as an included one.
    const alone = await ask({ containerImage: `${liar.host}/${repository}` });
    if (alone.status === 200) {
      const { targetImage } = JSON.parse(alone.body.toString());
      const reply = await call(sluice.at(targetImage, `blobs/${digest}`)).catch(() => undefined);
      assert.ok(!reply?.body.equals(secret));
    }
  });

  for (const format of ['docker', 'sif']) {
    test(`a frozen image has the files (${format})`, async () => {
      const body = {
        containerImage: nameOf('busybox:oci'),
        containerIncludes: [nameOf('layers:dup')],
        buildRepository: `${open.host}/frozen/${format}`,
        freeze: true,
        format,
      };
      const dry = JSON.parse((await ask({ ...body, dryRun: true })).body.toString());
      const { buildId, targetImage } = await sluice.request(body);
      assert.equal(dry.targetImage, targetImage, 'the dry run says the same name');
      await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
      const status = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/status`)).json();
      assert.equal((status as { succeeded: boolean }).succeeded, true, JSON.stringify(status));
      const [, place = ''] = targetImage.replace('oras://', '').split(`${open.host}/`);
      const [repository, tag] = place.split(':');
      const manifest = await fetch(`${open.url}/v2/${repository}/manifests/${tag}`, {
        headers: { accept: 'application/vnd.oci.image.manifest.v1+json' },
      });
      const { layers } = (await manifest.json()) as Manifest;
      if (format === 'docker') {
        assert.deepEqual(
          layers.map(({ digest }) => digest),
          [...layersOf('busybox:oci'), ...layersOf('layers:dup')],
        );
      } else assert.equal(layers.length, 1);
    });
  }
});
