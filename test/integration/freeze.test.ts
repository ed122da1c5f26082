/** Images with config and layers built into them, in repositories of the caller. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { manifestAccept } from '../../src/oci/media-type.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { runWithPodman } from '../world/clients.ts';
import { eventually } from '../world/eventually.ts';
import { freePort } from '../world/free-port.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess, change, injected } from './served.ts';

interface FrozenResponse {
  readonly requestId: string;
  readonly targetImage: string;
  readonly containerImage: string;
  readonly containerToken?: string;
  readonly expiration?: string;
  readonly buildId: string;
  readonly cached: boolean;
  readonly freeze: boolean;
  readonly succeeded?: boolean;
}

interface Manifest {
  readonly mediaType: string;
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string }[];
  readonly manifests?: readonly { readonly digest: string }[];
}

suite('freeze', { concurrency: 2 }, () => {
  let open: Registry;
  let closed: Registry;
  let tokens: Registry;
  let refusing: Registry;
  let pullOnly: Registry;
  let buildkitd: Buildkitd;
  let sluice: Sluice;
  let images: Map<string, Pushed>;

  before(async () => {
    open = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    tokens = await startRegistry({ auth: 'bearer' });
    refusing = await startRegistry({ auth: 'basic' });
    pullOnly = await startRegistry({ auth: 'bearer', token: { anonymousPull: true } });
    images = await pushCorpus(open, ['busybox:oci', 'cfg:full', 'multi:index']);
    await pushCorpus(closed, ['busybox:oci']);
    buildkitd = await startBuildkitd();
    const account = { username: 'tester', password: 'sesame', plainHttp: true, anonymous: true };
    sluice = await startSluice({
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        limits: { builds: { anonymous: 'off' } },
        registries: {
          [open.host]: { plainHttp: true },
          [closed.host]: account,
          [tokens.host]: {
            ...account,
            tokenHosts: [new URL(tokens.tokenService?.realm ?? '').host],
          },
          [refusing.host]: { ...account, password: 'wrong' },
          [pullOnly.host]: {
            plainHttp: true,
            tokenHosts: [new URL(pullOnly.tokenService?.realm ?? '').host],
          },
        },
      },
    });
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    for (const registry of [open, closed, tokens, refusing, pullOnly]) await registry?.stop();
  });

  const nameOf = (image: string) => images.get(image)?.reference ?? '';
  const freeze = async (body: object): Promise<FrozenResponse> =>
    (await sluice.request({ freeze: true, ...body })) as unknown as FrozenResponse;
  const refused = async (body: object) => {
    const response = await sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ freeze: true, ...body }),
    });
    const { message } = (await response.json()) as { message: string };
    return { status: response.status, message };
  };
  /** Waits for the end of the build. Returns the log of a failed build. */
  const finished = async ({ buildId }: FrozenResponse): Promise<void> => {
    const log = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const status = await (await sluice.fetch(`/v1alpha1/builds/${buildId}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);
  };
  const basic = `Basic ${Buffer.from('tester:sesame').toString('base64')}`;
  const fetchFrom = async (registry: Registry, path: string) => {
    const response = await fetch(`${registry.url}/v2/${path}`, {
      headers: { authorization: basic, accept: manifestAccept },
    });
    assert.equal(response.status, 200, path);
    return response;
  };
  const manifestOf = async (registry: Registry, name: string): Promise<Manifest> => {
    const [, repository = '', tag = ''] = /^[^/]+\/(.*):([^:]+)$/.exec(name) ?? [];
    return (
      await fetchFrom(registry, `${repository}/manifests/${tag}`)
    ).json() as Promise<Manifest>;
  };

  test('an image is frozen in a private repository with its config and layers, without a token', async () => {
    const body = {
      containerImage: nameOf('cfg:full'),
      containerConfig: change,
      buildRepository: `${closed.host}/team/frozen`,
    };
    const response = await freeze(body);
    assert.match(response.targetImage, new RegExp(`^${closed.host}/team/frozen:[0-9a-f]{32}$`));
    assert.equal(response.containerImage, response.targetImage);
    assert.equal(response.freeze, true);
    assert.equal(response.containerToken, undefined);
    assert.equal(response.expiration, undefined);
    await finished(response);
    const manifest = await manifestOf(closed, response.targetImage);
    assert.equal(manifest.layers.at(-1)?.digest, injected.gzipDigest);
    const config = await fetchFrom(closed, `team/frozen/blobs/${manifest.config.digest}`);
    const { config: runtime } = (await config.json()) as { config: { Env: string[] } };
    assert.ok(runtime.Env.includes('GREETING=injected'));
    for (const { digest } of manifest.layers) {
      await (await fetchFrom(closed, `team/frozen/blobs/${digest}`)).arrayBuffer();
    }

    const again = await freeze(body);
    assert.equal(again.targetImage, response.targetImage);
    assert.equal(again.buildId, response.buildId);
    assert.deepEqual([again.cached, again.succeeded], [true, true]);

    // Each has its own id, which gives access to its status only.
    assert.notEqual(again.requestId, response.requestId);
    for (const { requestId } of [response, again]) {
      const status = await sluice.fetch(`/v1alpha2/container/${requestId}/status`);
      const { id, buildId, succeeded } = (await status.json()) as Record<string, unknown>;
      assert.deepEqual([id, buildId, succeeded], [requestId, response.buildId, true]);
    }
    const path = `/v2/ct/${response.requestId}/team/frozen/manifests/latest`;
    const pulled = await sluice.fetch(path);
    assert.equal(pulled.status, 404);
    assert.match(await pulled.text(), new RegExp(`frozen: pull it as ${response.targetImage}`));
  });

  test('a repository behind a token service accepts an image of all its platforms', async () => {
    const response = await freeze({
      containerImage: nameOf('multi:index'),
      containerConfig: { env: ['FROZEN=1'] },
      buildRepository: `${tokens.host}/team/multi`,
      nameStrategy: 'none',
    });
    await finished(response);
    const [, repository = '', tag = ''] = /^[^/]+\/(.*):([^:]+)$/.exec(response.targetImage) ?? [];
    const scope = `repository:${repository}:pull`;
    const request = `${tokens.tokenService?.realm}?service=${tokens.tokenService?.service}&scope=${scope}`;
    const { token } = (await (
      await fetch(request, { headers: { authorization: basic } })
    ).json()) as { token: string };
    const index = await fetch(`${tokens.url}/v2/${repository}/manifests/${tag}`, {
      headers: { authorization: `Bearer ${token}`, accept: manifestAccept },
    });
    const { manifests = [] } = (await index.json()) as Manifest;
    assert.ok(manifests.length >= 2);
  });

  test('within one registry, blobs are mounted instead of sent', async () => {
    const response = await freeze({
      containerImage: nameOf('busybox:oci'),
      containerConfig: { env: ['MOVED=1'] },
      buildRepository: `${open.host}/moved/here`,
    });
    await finished(response);
    const log = await (await sluice.fetch(`/v1alpha1/builds/${response.buildId}/logs`)).text();
    const { layers, config } = await manifestOf(open, response.targetImage);
    for (const { digest } of layers) assert.match(log, new RegExp(`${digest} .*: mounted`));
    assert.match(log, new RegExp(`${config.digest} .*: sent`));
  });

  test('one platform of an index can be frozen alone', async () => {
    const response = await freeze({
      containerImage: nameOf('multi:index'),
      containerPlatform: 'linux/arm64',
      containerConfig: { cmd: ['one'] },
      buildRepository: `${closed.host}/team/single`,
    });
    await finished(response);
    const manifest = await manifestOf(closed, response.targetImage);
    assert.equal(manifest.manifests, undefined);
    const config = await fetchFrom(closed, `team/single/blobs/${manifest.config.digest}`);
    assert.equal(((await config.json()) as { architecture: string }).architecture, 'arm64');
  });

  test('a Dockerfile is frozen with its config, and gives the same bytes each time', async () => {
    const body = (repository: string) => ({
      containerFile: Buffer.from(
        `FROM ${nameOf('busybox:oci')}\nRUN date > /made; echo one > /file\n`,
      ).toString('base64'),
      containerConfig: { env: ['FROZEN=2'], cmd: ['sh', '-c', 'echo $FROZEN $(cat /file)'] },
      buildRepository: repository,
    });
    const one = await freeze(body(`${open.host}/frozen/one`));
    const other = await freeze(body(`${open.host}/frozen/other`));
    await Promise.all([finished(one), finished(other)]);
    const digestOf = async (name: string) => {
      const [, repository = '', tag = ''] = /^[^/]+\/(.*):([^:]+)$/.exec(name) ?? [];
      const response = await fetchFrom(open, `${repository}/manifests/${tag}`);
      return response.headers.get('docker-content-digest');
    };
    assert.equal(await digestOf(one.targetImage), await digestOf(other.targetImage));
    const { tags } = (await (await fetchFrom(open, 'frozen/one/tags/list')).json()) as {
      tags: string[];
    };
    assert.deepEqual(tags, [one.targetImage.split(':').at(-1)], 'nothing unfinished has a name');
    await using root = await openRoot('forky');
    assert.equal(assertSuccess(await runWithPodman(root, one.targetImage)), '2 one\n');
  });

  test('credentials without push access are reported before anything starts', async () => {
    for (const body of [
      { containerImage: nameOf('busybox:oci') },
      { containerFile: Buffer.from(`FROM ${nameOf('busybox:oci')}\n`).toString('base64') },
    ]) {
      const wrong = await refused({ ...body, buildRepository: `${refusing.host}/team/app` });
      assert.equal(wrong.status, 403);
      assert.match(wrong.message, new RegExp(`${refusing.host} refused access`));
      const readOnly = await refused({ ...body, buildRepository: `${pullOnly.host}/team/app` });
      assert.equal(readOnly.status, 403);
      assert.match(readOnly.message, new RegExp(`pushing to ${pullOnly.host}/team/app`));
    }
  });

  test('a hosted repository accepts frozen images only from callers who may push to it', async () => {
    const { status, message } = await refused({
      containerImage: nameOf('busybox:oci'),
      buildRepository: `${sluice.host}/team/app`,
    });
    assert.equal(status, 403);
    assert.match(message, /'buildRepository'.*Cannot push to .* without credentials/);
  });

  test('a served name is frozen with its changes, can be a base image, and is not in the log', async () => {
    const { targetImage, containerToken } = await sluice.request({
      containerImage: nameOf('cfg:full'),
      containerConfig: change,
    });
    const response = await freeze({
      containerImage: targetImage,
      containerConfig: { env: ['ONCE=more'] },
      buildRepository: `${closed.host}/team/served`,
    });
    await finished(response);
    const manifest = await manifestOf(closed, response.targetImage);
    assert.equal(manifest.layers.at(-1)?.digest, injected.gzipDigest);
    const config = await fetchFrom(closed, `team/served/blobs/${manifest.config.digest}`);
    const { config: runtime } = (await config.json()) as { config: { Env: string[] } };
    for (const entry of ['GREETING=injected', 'ONCE=more']) assert.ok(runtime.Env.includes(entry));

    const containerFile = Buffer.from(`FROM ${targetImage}\n`).toString('base64');
    const built = await sluice.request({ containerFile });
    const pulled = await fetch(
      sluice.at(built.targetImage, `manifests/${built.targetImage.split(':').at(-1)}`),
    );
    assert.equal(pulled.status, 200, await pulled.text());
    await sluice.requests();
    assert.ok(!sluice.output().includes(containerToken));
  });

  test('the served name of a build can be changed before it is built, but not frozen', async () => {
    const built = await sluice.request({
      containerFile: Buffer.from(`FROM ${nameOf('busybox:oci')}\nENV BUILT=1\n`).toString('base64'),
    });
    const body = { containerImage: built.targetImage, containerConfig: { env: ['MORE=1'] } };
    const { targetImage } = await sluice.request(body);
    const tag = targetImage.split(':').at(-1);
    const manifest = await fetch(sluice.at(targetImage, `manifests/${tag}`));
    const { config } = (await manifest.json()) as Manifest;
    const blob = await fetch(sluice.at(targetImage, `blobs/${config.digest}`));
    const { config: runtime } = (await blob.json()) as { config: { Env: string[] } };
    for (const entry of ['BUILT=1', 'MORE=1']) assert.ok(runtime.Env.includes(entry));
    const frozen = await refused({ ...body, buildRepository: `${closed.host}/team/built` });
    assert.equal(frozen.status, 400);
    assert.match(frozen.message, /served name of a build, which cannot be copied/);
  });

  test("without a repository, frozen images go to the operator's repository, except private ones", async () => {
    const port = await freePort();
    const place = `127.0.0.1:${port}/public/frozen`;
    await using directory = await makeTempDir('frozen');
    const options = {
      port,
      data: directory.join('data'),
      config: {
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        builds: { keepAnonymous: '1s' },
        // A build is kept as long as its requests.
        tokenLife: '1s',
        limits: { builds: { anonymous: 'off' } },
        freezeRepository: place,
        freezeSifRepository: `${open.host}/public/sif`,
        registries: {
          [open.host]: { plainHttp: true },
          [closed.host]: {
            ...{ username: 'tester', password: 'sesame', plainHttp: true, anonymous: true },
          },
        },
      },
    };
    await using server = await startSluice(options);
    const ask = async (body: object) =>
      (await server.request({ freeze: true, ...body })) as unknown as FrozenResponse & {
        warnings: string[];
      };
    const base = nameOf('busybox:oci');
    const recipe = (text: string) => Buffer.from(text).toString('base64');
    for (const [body, name] of [
      [{ containerImage: base, containerConfig: { env: ['A=1'] } }, /:[0-9a-f]{32}$/],
      [{ containerFile: recipe(`FROM ${base}\nRUN echo frozen > /file\n`) }, /:[0-9a-f]{32}$/],
    ] as const) {
      const response = await ask(body);
      assert.ok(response.targetImage.startsWith(place), response.targetImage);
      assert.match(response.targetImage, name);
      assert.match(
        String(response.warnings),
        /frozen to .*\/public\/frozen, which others can pull/,
      );
      const logs = `/v1alpha1/builds/${response.buildId}/logs?follow=true`;
      const log = await (await server.fetch(logs)).text();
      const tag = response.targetImage.split(':').at(-1);
      const manifest = await server.fetch(`/v2/public/frozen/manifests/${tag}`);
      assert.equal(manifest.status, 200, log);
    }
    const sif = await ask({ containerImage: base, format: 'sif', dryRun: true });
    assert.match(sif.targetImage, new RegExp(`^oras://${open.host}/public/sif:`));
    const secret = `${closed.host}/corpus/busybox:oci`;
    for (const body of [
      { containerImage: secret },
      { containerFile: recipe(`FROM ${secret}\n`) },
    ]) {
      await assert.rejects(
        ask(body),
        /400: .*'freeze': .*busybox is private.* set 'buildRepository'/,
      );
    }
    // Only callers with their own right to the repository may name it.
    await assert.rejects(
      ask({ containerImage: base, buildRepository: place }),
      /403: .*'buildRepository'/,
    );

    // Unlike other builds of callers without a login, it stays.
    const { targetImage, buildId } = await ask({ containerImage: base });
    const tag = targetImage.split(':').at(-1);
    const end = `/v1alpha1/builds/${buildId}/logs?follow=true`;
    await (await server.fetch(end)).text();
    const since = performance.now();
    await eventually('the build may be forgotten', () => performance.now() > since + 1000);
    await server.stop();
    await using again = await startSluice(options);
    await eventually('the build is forgotten', async () => {
      return (await again.fetch(`/v1alpha1/builds/${buildId}`)).status === 404;
    });
    assert.equal((await again.fetch(`/v2/public/frozen/manifests/${tag}`)).status, 200);
  });

  test('a missing field is reported', async () => {
    const without = await refused({ containerImage: nameOf('busybox:oci') });
    assert.equal(without.status, 400);
    assert.match(without.message, /'freeze' requires 'buildRepository'/);
    const unknown = await refused({
      containerImage: `${open.host}/no/such:image`,
      buildRepository: `${closed.host}/team/app`,
    });
    assert.equal(unknown.status, 400);
    assert.match(unknown.message, /no\/such:image/);
  });
});
