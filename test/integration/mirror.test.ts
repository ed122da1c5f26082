/** Copies of images as they are, between real registries. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { contentOf, describe, jsonContent, mediaTypes } from '../corpus/content.ts';
import { makeImage, type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { Pusher } from '../corpus/push.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { assertSuccess } from './served.ts';

interface MirrorResponse {
  readonly requestId: string;
  readonly targetImage: string;
  readonly buildId: string;
  readonly cached: boolean;
  readonly mirror: boolean;
  readonly freeze?: boolean;
  readonly containerToken?: string;
  readonly message?: string;
}

suite('mirror', () => {
  let source: Registry;
  let target: Registry;
  /** A registry with the referrers API. */
  let hosting: Sluice;
  let sluice: Sluice;
  let images: Map<string, Pushed>;

  before(async () => {
    source = await startRegistry();
    target = await startRegistry({ auth: 'basic' });
    images = await pushCorpus(source, ['busybox:oci', 'cfg:full', 'multi:index']);
    const account = { username: 'tester', password: 'sesame', plainHttp: true, anonymous: true };
    hosting = await startSluice({ config: { accounts: { tester: 'sesame' } } });
    sluice = await startSluice({
      config: {
        buildkit: ['off'],
        accounts: { admin: 'secret' },
        limits: { builds: { anonymous: 'off' } },
        registries: {
          [source.host]: { plainHttp: true },
          [target.host]: account,
          [hosting.host]: account,
        },
      },
    });
  });
  after(async () => {
    for (const server of [sluice, hosting]) await server?.stop();
    for (const registry of [source, target]) await registry?.stop();
  });

  const nameOf = (image: string) => images.get(image)?.reference ?? '';
  const send = async (body: object) => {
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ mirror: true, ...body }),
    });
    return { status: response.status, body: (await response.json()) as MirrorResponse };
  };
  const mirror = async (body: object): Promise<MirrorResponse> => {
    const response = await send(body);
    assert.equal(response.status, 200, JSON.stringify(response.body));
    const { buildId } = response.body;
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const details = await sluice.fetch(`/v1alpha1/mirrors/${buildId}`);
    const found = (await details.json()) as { succeeded: boolean };
    assert.equal(found.succeeded, true, log);
    return response.body;
  };
  const basic = `Basic ${Buffer.from('tester:sesame').toString('base64')}`;
  const digestAt = async (registry: Registry, name: string): Promise<string | undefined> => {
    const [, repository = '', reference = ''] = /^[^/]+\/([^:@]+)[:@](.+)$/.exec(name) ?? [];
    const response = await fetch(`${registry.url}/v2/${repository}/manifests/${reference}`, {
      method: 'HEAD',
      headers: { authorization: basic, accept: manifestAccept },
    });
    return response.status === 200
      ? (response.headers.get('docker-content-digest') ?? '')
      : undefined;
  };

  test('an index is copied with all platforms, under its path and tag, and a second request finds it', async () => {
    const body = {
      containerImage: nameOf('multi:index'),
      buildRepository: `${target.host}/copies`,
    };
    const first = await mirror(body);
    assert.equal(
      first.targetImage,
      nameOf('multi:index').replace(source.host, `${target.host}/copies`),
    );
    assert.deepEqual(
      [first.mirror, first.freeze, first.containerToken],
      [true, undefined, undefined],
    );
    const digest = await digestAt(source, nameOf('multi:index'));
    assert.equal(await digestAt(target, first.targetImage), digest);

    const { mirrorId, detailsUri } = (await (
      await sluice.fetch(`/v1alpha2/container/${first.requestId}/status`)
    ).json()) as { mirrorId: string; detailsUri: string };
    assert.equal(mirrorId, first.buildId);
    assert.ok(detailsUri.endsWith(`/view/builds/${mirrorId}`));
    const details = (await (await sluice.fetch(`/v1alpha1/mirrors/${mirrorId}`)).json()) as object;
    assert.deepEqual(
      { ...details, creationTime: '', duration: 0 },
      {
        ...{ mirrorId, status: 'COMPLETED', creationTime: '', duration: 0 },
        sourceImage: `${nameOf('multi:index').replace(/:[^:]*$/, '')}@${digest}`,
        ...{ targetImage: first.targetImage, exitCode: 0, succeeded: true, digest },
      },
    );
    const log = await (await sluice.fetch(`/v1alpha1/mirrors/${mirrorId}/logs`)).text();
    assert.match(log, /Copy the image/);

    const again = await send(body);
    assert.deepEqual([again.body.cached, again.body.buildId], [true, first.buildId]);
    const counted = await sluice.fetch('/v1alpha2/metrics/mirrors', {
      headers: { authorization: `Basic ${Buffer.from('admin:secret').toString('base64')}` },
    });
    assert.deepEqual(await counted.json(), { metric: 'mirrors', count: 1, orgs: {} });
  });

  test('a tag that has moved is copied again, also back', async () => {
    const pusher = await Pusher.open(source, 'team/moving');
    const body = { containerImage: `${source.host}/team/moving:1`, buildRepository: target.host };
    const made = ['cfg:full', 'busybox:oci', 'cfg:full'];
    const digests: (string | undefined)[] = [];
    for (const image of made) {
      await pusher.push(await makeImage(image), '1');
      const { targetImage } = await mirror(body);
      assert.equal(targetImage, `${target.host}/team/moving:1`);
      digests.push(await digestAt(target, targetImage));
    }
    await pusher.close();
    assert.deepEqual(
      digests,
      await Promise.all(made.map(image => digestAt(source, nameOf(image)))),
    );
  });

  test('signatures by tag and referrers come along, to a registry with the referrers API and to one without', async () => {
    await using root = await openRoot('trixie');
    const image = nameOf('busybox:oci');
    const cosign = (...args: string[]) =>
      root.exec(['cosign', ...args], { env: { COSIGN_PASSWORD: 'word' } });
    assertSuccess(await cosign('generate-key-pair', '--output-key-prefix', '/tmp/key'));
    const digest = await digestAt(source, image);
    const pinned = `${image.replace(/:[^:]*$/, '')}@${digest}`;
    // Nothing here may contact the public services of cosign.
    const sign = ['sign', '--yes', '--tlog-upload=false'];
    const plain = ['--allow-http-registry'];
    assertSuccess(await cosign(...sign, ...plain, '--key', '/tmp/key.key', pinned));
    assertSuccess(
      await root.exec([
        'sh',
        '-c',
        'echo "{}" > /tmp/bill.json && cd /tmp && oras attach --plain-http --artifact-type application/vnd.example.bill "$0" bill.json',
        pinned,
      ]),
    );
    for (const place of [`${hosting.host}/copies`, target.host]) {
      const { targetImage } = await mirror({ containerImage: image, buildRepository: place });
      const verify = ['verify', '--insecure-ignore-tlog=true'];
      const login = ['--registry-username=tester', '--registry-password=sesame'];
      assertSuccess(
        await cosign(...verify, ...plain, ...login, '--key', '/tmp/key.pub', targetImage),
      );
      const discover = [
        'oras',
        'discover',
        '--plain-http',
        '--format',
        'json',
        '--artifact-type',
        'application/vnd.example.bill',
      ];
      const account = ['-u', 'tester', '-p', 'sesame'];
      const found = assertSuccess(await root.exec([...discover, ...account, targetImage]));
      assert.match(found, /application\/vnd\.example\.bill/, place);
    }
  });

  test('referrers on several pages are all copied', async () => {
    const pusher = await Pusher.open(
      { url: hosting.url, username: 'tester', password: 'sesame' },
      'team/paged',
    );
    const image = await makeImage('cfg:full');
    await pusher.push(image, '1');
    // Hosted repositories list at most 1 MiB of annotations on a page.
    const config = contentOf(mediaTypes.ociEmpty, '{}');
    const referrers = Array.from({ length: 12 }, (_, at) =>
      jsonContent(mediaTypes.ociManifest, {
        ...{ schemaVersion: 2, mediaType: mediaTypes.ociManifest, config: describe(config) },
        ...{ artifactType: 'application/vnd.example', layers: [], subject: describe(image.root) },
        annotations: { [`at-${at}`]: 'a'.repeat(120 * 1024) },
      }),
    );
    for (const root of referrers) {
      await pusher.push({ root, children: [], blobs: [config] }, root.digest);
    }
    await pusher.close();
    const listed = await hosting.fetch(`/v2/team/paged/referrers/${image.root.digest}`, {
      headers: { authorization: basic },
    });
    assert.ok(listed.headers.get('link'), 'all referrers fit on one page');

    const { targetImage } = await mirror({
      containerImage: `${hosting.host}/team/paged:1`,
      buildRepository: `${target.host}/copies`,
    });
    for (const { digest } of referrers) {
      assert.equal(await digestAt(target, targetImage.replace(/:1$/, `@${digest}`)), digest);
    }
  });

  test('requests that do not fit are refused, with the remedy', async () => {
    const containerImage = nameOf('busybox:oci');
    const buildRepository = `${target.host}/copies`;
    const rows: readonly [object, RegExp][] = [
      [{ containerImage }, /'mirror' requires 'buildRepository'/],
      [
        { buildRepository, containerFile: 'RlJPTSBzY3JhdGNo' },
        /'mirror' requires 'containerImage'/,
      ],
      [{ containerImage, buildRepository, freeze: true }, /'freeze' cannot be sent with 'mirror'/],
      [
        { containerImage, buildRepository, containerConfig: { env: ['A=1'] } },
        /'containerConfig' cannot be sent with 'mirror'.*send 'freeze'/,
      ],
      [{ containerImage, buildRepository: `${target.host}/copies:1` }, /'buildRepository'/],
      [{ containerImage, buildRepository: `http://${target.host}` }, /'buildRepository'/],
      [{ containerImage, buildRepository: source.host }, /copied onto itself/],
    ];
    for (const [body, message] of rows) {
      const { status, body: response } = await send(body);
      assert.equal(status, 400, JSON.stringify(response));
      assert.match(response.message ?? '', message);
    }
    const legacy = await sluice.fetch('/container-token', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ mirror: true, containerImage, buildRepository }),
    });
    assert.equal(legacy.status, 400);
  });

  test('the command copies several images and prints their names', async () => {
    const names = ['cfg:full', 'busybox:oci'].map(nameOf);
    const result = await sluiceCommand([
      'mirror',
      ...names,
      ...['--to', `${target.host}/by-command`, '--await', '--server', sluice.url],
    ]);
    assert.equal(result.code, 0, result.stderr);
    assert.deepEqual(
      result.stdout.trim().split('\n'),
      names.map(name => name.replace(source.host, `${target.host}/by-command`)),
    );
    const image = names[0] ?? '';
    assert.equal(
      await digestAt(target, image.replace(source.host, `${target.host}/by-command`)),
      await digestAt(source, image),
    );
  });
});
