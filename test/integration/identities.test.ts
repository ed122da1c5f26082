/** Two servers: one is the platform with users and credentials, the other one uses it. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { startLyingRegistry } from './lying-registry.ts';
import { assertSuccess } from './served.ts';

interface BuildResponse extends ContainerResponse {
  readonly buildId: string;
}

interface Forecast {
  readonly targetImage: string;
  readonly buildId: string;
  readonly cached: boolean;
  readonly succeeded: boolean;
  readonly containerFile: string;
  readonly registries: readonly {
    readonly repository: string;
    readonly credentials?: { readonly owner: string };
    readonly canPull: boolean;
    readonly canPush?: boolean;
    readonly problems: readonly string[];
  }[];
}

const administrator = `Basic ${Buffer.from('admin:platform-secret').toString('base64')}`;

suite('identities', { concurrency: 1 }, () => {
  let closed: Registry;
  let guarded: Registry;
  let buildkitd: Buildkitd;
  let platform: Sluice;
  let service: Sluice;
  let images: Map<string, Pushed>;
  let liar: Awaited<ReturnType<typeof startLyingRegistry>>;
  let alice: string;
  let bob: string;

  before(async () => {
    closed = await startRegistry({ auth: 'basic' });
    guarded = await startRegistry({ auth: 'bearer' });
    images = await pushCorpus(closed, ['busybox:oci', 'multi:index']);
    await pushCorpus(guarded, ['busybox:oci']);
    liar = await startLyingRegistry();
    buildkitd = await startBuildkitd();
    platform = await startSluice({ config: { accounts: { admin: 'platform-secret' } } });
    service = await startSluice({
      config: {
        accounts: { admin: 'service-secret' },
        buildkit: [buildkitd.address],
        platform: { url: `${platform.url}/platform` },
        limits: { builds: { anonymous: 'off', authenticated: 'off' } },
        registries: {
          [closed.host]: { plainHttp: true, blobs: 'cache' },
          [liar.host]: { plainHttp: true, blobs: 'cache' },
          [guarded.host]: {
            plainHttp: true,
            tokenHosts: [new URL(guarded.tokenService?.realm ?? '').host],
          },
        },
      },
    });
    alice = await newUser('alice@one.example.org');
    bob = await newUser('bob@other.example.com');
    for (const registry of [closed, guarded]) {
      await addCredentials({ user: 'alice@one.example.org' }, registry, registry.password);
    }
  });
  after(async () => {
    await service?.stop();
    await platform?.stop();
    await buildkitd?.stop();
    await guarded?.stop();
    await closed?.stop();
    liar?.stop();
  });

  const onPlatform = async (...args: string[]): Promise<Record<string, unknown>> => {
    const account = { SLUICE_ACCOUNT: 'admin:platform-secret' };
    const result = await sluiceCommand([...args, '--server', platform.url, '--json'], account);
    return JSON.parse(assertSuccess(result));
  };
  const newUser = async (email: string): Promise<string> => {
    await onPlatform('user', 'add', email);
    return newToken(email, 'pipeline');
  };
  const newToken = async (email: string, name: string): Promise<string> => {
    const { token } = await onPlatform('token', 'add', '--user', email, '--name', name);
    return String(token);
  };
  const addCredentials = async (owner: object, registry: Registry, password: string) => {
    const keys = { registry: registry.host, userName: registry.username, password };
    const response = await platform.fetch('/platform/credentials', {
      method: 'POST',
      headers: { authorization: administrator, 'content-type': 'application/json' },
      body: JSON.stringify({ ...owner, credentials: { provider: 'container-reg', keys } }),
    });
    assert.equal(response.status, 200, await response.clone().text());
  };
  const request = async (token: string, body: object): Promise<BuildResponse> =>
    (await service.request({ platformAccessToken: token, ...body })) as BuildResponse;
  const refused = async (token: string, body: object) => {
    const response = await service.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...(token ? { platformAccessToken: token } : {}), ...body }),
    });
    const { message } = (await response.json()) as { message: string };
    assert.ok(!message.includes(token) || token === '');
    return { status: response.status, message };
  };
  /** Pulls everything of an image: how many blobs that were. */
  const pull = async ({ targetImage }: Pick<BuildResponse, 'targetImage'>): Promise<number> => {
    const [, reference = ''] = /:([^/:]+)$/.exec(targetImage) ?? [];
    const manifest = await fetch(service.at(targetImage, `manifests/${reference}`));
    assert.equal(manifest.status, 200, await manifest.clone().text());
    const { config, layers } = (await manifest.json()) as {
      config: { digest: string };
      layers: { digest: string }[];
    };
    for (const { digest } of [config, ...layers]) {
      const blob = await fetch(service.at(targetImage, `blobs/${digest}`));
      assert.equal(blob.status, 200, digest);
      await blob.arrayBuffer();
    }
    return layers.length + 1;
  };
  const nameOf = (image: string, registry = closed) =>
    (images.get(image)?.reference ?? '').replace(closed.host, registry.host);
  const readBuilds = () => readdir(join(service.data, 'logs/builds')).catch(() => []);
  const finished = async ({ buildId }: BuildResponse): Promise<void> => {
    const log = await (await service.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
    const status = await (await service.fetch(`/v1alpha1/builds/${buildId}/status`)).json();
    assert.equal((status as { succeeded: boolean }).succeeded, true, log);
  };

  for (const [what, registryOf] of [
    ['basic', () => closed],
    ['bearer', () => guarded],
  ] as const) {
    test(`a private image is served to callers with credentials for it (${what})`, async () => {
      const response = await request(alice, {
        containerImage: nameOf('busybox:oci', registryOf()),
      });
      assert.ok((await pull(response)) > 1);
    });

    test(`it is refused to callers without credentials, also when it is cached here (${what})`, async () => {
      for (const token of [bob, '']) {
        const { status, message } = await refused(token, {
          containerImage: nameOf('busybox:oci', registryOf()),
        });
        assert.ok(status === 403 || status === 404, String(status));
        assert.match(message, /refused/);
      }
    });
  }

  test('metadata of a private image requires credentials', async () => {
    const inspect = (token: string) =>
      service.fetch('/v1alpha1/inspect', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          containerImage: nameOf('busybox:oci'),
          platformAccessToken: token,
        }),
      });
    assert.equal((await inspect(alice)).status, 200);
    assert.equal((await inspect(bob)).status, 403);
  });

  test('another registry that names stored content does not get it', async () => {
    const index = await request(alice, { containerImage: nameOf('multi:index') });
    const { manifests } = (await (
      await fetch(service.at(index.targetImage, `manifests/${index.digest}`))
    ).json()) as { manifests: { digest: string; mediaType: string; size: number }[] };
    const [child] = manifests;
    assert.ok(child);
    const whole = await fetch(service.at(index.targetImage, `manifests/${child.digest}`));
    const { layers } = (await whole.json()) as { layers: { digest: string; size: number }[] };
    const [layer] = layers;
    assert.ok(layer);
    await (await fetch(service.at(index.targetImage, `blobs/${layer.digest}`))).arrayBuffer();

    const part = { mediaType: mediaTypes.ociConfig, digest: layer.digest, size: layer.size };
    liar.tag('index', mediaTypes.ociIndex, { manifests: [child] });
    liar.tag('image', mediaTypes.ociManifest, { config: part, layers: [part] });
    const direct = await refused('', { containerImage: `${liar.host}/x@${child.digest}` });
    assert.ok(direct.status >= 400, 'a manifest that it does not send does not exist');
    for (const [tag, route] of [
      ['index', `manifests/${child.digest}`],
      ['image', `blobs/${layer.digest}`],
    ]) {
      const { targetImage } = await service.request({ containerImage: `${liar.host}/x:${tag}` });
      const found = await fetch(service.at(targetImage, route ?? ''));
      const bytes = await found.arrayBuffer().catch(() => new ArrayBuffer(0));
      assert.ok(found.status !== 200 || bytes.byteLength === 0, `${tag}: ${found.status}`);
    }
  });

  test('images are built from private images, pushed to private repositories, and frozen there', async () => {
    const containerFile = Buffer.from(`FROM ${nameOf('busybox:oci')}\nRUN echo own\n`).toString(
      'base64',
    );
    const built = await request(alice, { containerFile });
    await pull(built);
    assert.equal((await refused(bob, { containerFile })).status, 400, 'the builder has it');
    assert.equal((await refused('', { containerFile })).status, 400);

    for (const repository of [`${closed.host}/alice/built`, `${guarded.host}/alice/built`]) {
      const body = { containerFile, buildRepository: repository };
      await pull(await request(alice, body));
      assert.equal((await refused(bob, body)).status, 400);
    }
    const frozen = await request(alice, {
      containerImage: nameOf('multi:index'),
      containerConfig: { env: ['A=1'] },
      buildRepository: `${guarded.host}/alice/frozen`,
      freeze: true,
    });
    await finished(frozen);
    assert.match(frozen.targetImage, new RegExp(`^${guarded.host}/alice/frozen:`));
    const foreign = await refused(bob, {
      containerImage: nameOf('busybox:oci'),
      buildRepository: `${closed.host}/alice/frozen`,
      freeze: true,
    });
    assert.equal(foreign.status, 403);
  });

  test('a workspace shares its credentials with its members', async () => {
    const { id } = await onPlatform('workspace', 'add', 'laboratory');
    const containerImage = nameOf('busybox:oci');
    const body = { containerImage, platformWorkspaceId: Number(id) };
    assert.equal((await refused(bob, body)).status, 403, 'no member yet');
    await addCredentials({ workspaceId: Number(id) }, closed, closed.password);
    const response = await platform.fetch(`/platform/workspaces/${id}/members`, {
      method: 'POST',
      headers: { authorization: administrator, 'content-type': 'application/json' },
      body: JSON.stringify({ user: 'bob@other.example.com' }),
    });
    assert.ok(response.ok, await response.text());
    // A refusal is cached for a while with its token.
    const token = await newToken('bob@other.example.com', 'laboratory');
    await pull(await request(token, body));
    assert.equal((await refused(token, { containerImage })).status, 403, 'not outside of it');
  });

  test('a token that is wrong, revoked or for another platform is reported as such', async () => {
    const containerImage = nameOf('busybox:oci');
    const wrong = await refused('wrong-token-of-nobody', { containerImage });
    assert.equal(wrong.status, 403);
    assert.match(wrong.message, /token/);
    const token = await newToken('alice@one.example.org', 'short');
    await onPlatform('token', 'remove', '--user', 'alice@one.example.org', '--name', 'short');
    assert.equal((await refused(token, { containerImage })).status, 403);
    const elsewhere = await refused(alice, {
      containerImage,
      platformEndpoint: 'https://evil.example.net/api',
    });
    assert.equal(elsewhere.status, 400);
    assert.match(elsewhere.message, /platform\.allow/);
    for (const platformEndpoint of [`${platform.url}/platform/`, `${platform.url}/platform/api`]) {
      await request(alice, { containerImage, platformEndpoint });
    }
  });

  test('the built-in platform works without another server', async () => {
    const local = await sluiceCommand(
      ['user', 'add', 'carol@own.example.org', '--data', service.data, '--json'],
      {},
    );
    assertSuccess(local);
    const add = ['token', 'add', '--user', 'carol@own.example.org', '--name', 'ci', '--json'];
    const { token } = JSON.parse(
      assertSuccess(await sluiceCommand([...add, '--data', service.data], {})),
    ) as { token: string };
    const body = {
      containerImage: nameOf('busybox:oci'),
      platformEndpoint: `${service.url}/platform`,
    };
    assert.equal((await refused(token, body)).status, 403, 'without credentials');
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
    };
    const keys = { registry: closed.host, userName: closed.username, password: closed.password };
    const response = await service.fetch('/platform/credentials', {
      method: 'POST',
      headers,
      body: JSON.stringify({ credentials: { keys } }),
    });
    assert.equal(response.status, 200, await response.text());
    await pull(await request(token, body));
  });

  test('a dry run shows the effects of a request, and the credentials it would use', async () => {
    const before = (await readBuilds()).length;
    const body = {
      containerFile: Buffer.from(`FROM ${nameOf('busybox:oci')}\nRUN echo dry\n`).toString(
        'base64',
      ),
      buildRepository: `${guarded.host}/alice/dry`,
      dryRun: true,
    };
    const told = (await request(alice, body)) as unknown as Forecast;
    assert.match(told.buildId, /^[0-9a-f]{32}_0$/);
    assert.match(told.targetImage, new RegExp(`^${guarded.host}/alice/dry:`));
    assert.deepEqual([told.cached, told.succeeded], [false, true]);
    assert.match(told.containerFile, /RUN echo dry/);
    assert.deepEqual(
      told.registries.map(({ repository, credentials, canPull, canPush }) => [
        repository.split('/').slice(1).join('/'),
        credentials?.owner,
        canPull,
        canPush,
      ]),
      [
        ['corpus/busybox', 'user', true, undefined],
        ['alice/dry', 'user', true, true],
      ],
    );
    const other = (await request(bob, body)) as unknown as Forecast;
    for (const { credentials, canPull, problems } of other.registries) {
      assert.deepEqual([other.succeeded, credentials, canPull], [false, undefined, false]);
      assert.match(problems.join(), /refused/);
    }
    assert.equal((await readBuilds()).length, before, 'nothing was built');
  });

  test('credentials of a registry can be checked', async () => {
    const valid = async (registry: string, password: string) => {
      const response = await service.fetch('/v1alpha2/validate-creds', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ registry, userName: 'tester', password }),
      });
      return response.status === 200 ? response.json() : response.status;
    };
    for (const { host, password } of [closed, guarded]) {
      assert.equal(await valid(host, password), true);
      assert.equal(await valid(host, 'wrong'), false);
    }
    assert.equal(await valid('169.254.169.254', 'x'), 400, 'no way to look around');
    assert.equal(await valid(closed.host, ''), 400);
  });

  test('pulls and builds count for the organisation of the caller', async () => {
    const metrics = async (path: string) => {
      const authorization = `Basic ${Buffer.from('admin:service-secret').toString('base64')}`;
      const response = await service.fetch(path, { headers: { authorization } });
      return (await response.json()) as { orgs: Record<string, number> };
    };
    const pulls = await metrics('/v1alpha2/metrics/pulls');
    assert.ok((pulls.orgs['one.example.org'] ?? 0) >= 4);
    const builds = await metrics('/v1alpha2/metrics/builds');
    assert.ok((builds.orgs['one.example.org'] ?? 0) >= 3);
    assert.equal(builds.orgs['other.example.com'], undefined);
  });

  test('many requests cause few calls to the platform', async () => {
    const containerImage = nameOf('busybox:oci');
    const before = (await platform.requests()).length;
    for (let sent = 0; sent < 500; sent += 50) {
      await Promise.all(Array.from({ length: 50 }, () => request(alice, { containerImage })));
    }
    const calls = (await platform.requests()).length - before;
    assert.ok(calls <= 10, `${calls} calls for 500 requests`);
  });

  test('no secret is in a file, a log, an argument or a metric', async () => {
    const secrets = [alice, bob, closed.password, 'platform-secret', 'service-secret'];
    const texts = new Map<string, string>();
    for (const server of [platform, service]) {
      texts.set(`log of ${server.host}`, server.output());
      texts.set(`metrics of ${server.host}`, await (await server.fetch('/metrics')).text());
      const { pid } = server.process;
      texts.set(`arguments of ${server.host}`, await readFile(`/proc/${pid}/cmdline`, 'latin1'));
      for (const entry of await readdir(server.data, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name);
        if (entry.isFile()) texts.set(path, await readFile(path, 'latin1'));
      }
    }
    assert.ok([...texts.keys()].some(name => name.endsWith('sluice.db-wal')));
    for (const [name, text] of texts) {
      for (const secret of secrets) {
        const encoded = Buffer.from(`tester:${secret}`).toString('base64');
        assert.ok(!text.includes(secret) && !text.includes(encoded), `a secret is in ${name}`);
      }
    }
  });
});
