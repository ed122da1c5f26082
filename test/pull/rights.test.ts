/** The right to stored content is checked again as long as it is served. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pushCorpus } from '../corpus/corpus.ts';
import { type FaultWorld, startFaultWorld } from '../faults/fault-world.ts';
import { assertRegistryFault, call, type Reply } from '../faults/http-client.ts';
import { emptyLayer, pattern, type ScriptedUpstream } from '../faults/scripted-upstream.ts';
import { basic } from '../http/platform/platform-server.ts';
import { type Buildkitd, startBuildkitd } from '../world/buildkitd.ts';
import { eventually } from '../world/eventually.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';

const admin = { name: 'admin', password: 'secret' };
const rightLife = '300ms';
const json = { 'content-type': 'application/json' };
const change = {
  env: ['A=1'],
  layers: [{ location: `data:${emptyLayer.toString('base64')}` }],
};

type Pull = (route: string) => Promise<Reply>;

/** Every route to what is kept of an image: the manifest, its config, its layers. */
async function routesOf(pull: Pull, tag: string): Promise<string[]> {
  const manifest = await pull(`manifests/${tag}`);
  assert.equal(manifest.status, 200, manifest.body.toString());
  const { config, layers } = JSON.parse(manifest.body.toString());
  const blobs = [config, ...layers].map(({ digest }: { digest: string }) => `blobs/${digest}`);
  return [`manifests/${tag}`, ...blobs];
}

async function assertServed(pull: Pull, routes: readonly string[]): Promise<void> {
  for (const route of routes) assert.equal((await pull(route)).status, 200, route);
}

/** All parts of the image are refused, permanently. */
async function assertEnds(pull: Pull, routes: readonly string[]): Promise<void> {
  const [manifest = ''] = routes;
  await eventually('the right ends', async () => (await pull(manifest)).status === 403);
  for (const route of routes) {
    assertRegistryFault(await pull(route), {
      status: 403,
      code: 'DENIED',
      message: /no longer shows .*Make a new container request|account|token/,
    });
  }
}

suite('the right to stored content', { concurrency: 4 }, () => {
  let closed: Registry;
  let buildkitd: Buildkitd;
  const token = { isClosed: false };
  let guarded: Registry;

  before(async () => {
    closed = await startRegistry({ auth: 'basic' });
    guarded = await startRegistry({ auth: 'bearer', token });
    for (const registry of [closed, guarded]) await pushCorpus(registry, ['busybox:oci']);
    buildkitd = await startBuildkitd();
    sluice = await start();
  });
  after(async () => {
    await sluice?.stop();
    await buildkitd?.stop();
    await guarded?.stop();
    await closed?.stop();
  });

  let sluice: Sluice;

  const start = (config: object = {}) =>
    startSluice({
      config: {
        rightLife,
        accounts: { admin: 'secret' },
        buildkit: [buildkitd.address],
        registries: {
          [closed.host]: { plainHttp: true, blobs: 'cache' },
          [guarded.host]: {
            plainHttp: true,
            blobs: 'cache',
            tokenHosts: [new URL(guarded.tokenService?.realm ?? '').host],
          },
        },
        ...config,
      },
    });
  /** Makes a user with credentials of a registry. */
  const userOf = async (sluice: Sluice, registry: Registry, email: string) => {
    const platformAccessToken = await newAccessToken(sluice, admin, email);
    const keys = {
      registry: registry.host,
      userName: registry.username,
      password: registry.password,
    };
    const headers = { ...json, authorization: `Bearer ${platformAccessToken}` };
    const response = await sluice.fetch('/platform/credentials', {
      method: 'POST',
      headers,
      body: JSON.stringify({ credentials: { keys } }),
    });
    const { credentialsId } = (await response.json()) as { credentialsId: string };
    return {
      platformAccessToken,
      removeCredentials: () =>
        sluice.fetch(`/platform/credentials/${credentialsId}`, { method: 'DELETE', headers }),
    };
  };
  const pullOf = (sluice: Sluice, targetImage: string): Pull => {
    return route => call(sluice.at(targetImage, route));
  };

  for (const kind of ['basic', 'bearer'] as const) {
    test(`ends with the credentials of the user (${kind})`, async () => {
      const registry = kind === 'basic' ? closed : guarded;
      const user = await userOf(sluice, registry, `${kind}@example.org`);
      const image = `${registry.host}/corpus/busybox:oci`;
      const body = { platformAccessToken: user.platformAccessToken, containerImage: image };
      for (const containerConfig of [undefined, change]) {
        const { targetImage } = await sluice.request({ ...body, containerConfig });
        const pull = pullOf(sluice, targetImage);
        const routes = await routesOf(pull, 'oci');
        await assertServed(pull, routes);
        if (containerConfig) {
          await user.removeCredentials();
          await assertEnds(pull, routes);
        }
      }
    });
  }

  test('ends when the token service of the registry no longer lets the user in', async () => {
    const own = { isClosed: false };
    await using registry = await startRegistry({ auth: 'bearer', token: own });
    await pushCorpus(registry, ['busybox:oci']);
    await using sluice = await start({
      registries: {
        [registry.host]: {
          plainHttp: true,
          blobs: 'cache',
          tokenHosts: [new URL(registry.tokenService?.realm ?? '').host],
        },
      },
    });
    const user = await userOf(sluice, registry, 'ada@example.org');
    const { targetImage } = await sluice.request({
      platformAccessToken: user.platformAccessToken,
      containerImage: `${registry.host}/corpus/busybox:oci`,
    });
    const pull = pullOf(sluice, targetImage);
    const routes = await routesOf(pull, 'oci');
    await assertServed(pull, routes);
    own.isClosed = true;
    await assertEnds(pull, routes);
    own.isClosed = false;
    await eventually('it comes back', async () => (await pull('manifests/oci')).status === 200);
    await assertServed(pull, routes);
  });

  test('ends for an image built from a private image', async () => {
    const user = await userOf(sluice, closed, 'built@example.org');
    const dockerfile = `FROM ${closed.host}/corpus/busybox:oci\nLABEL of=${sluice.port}\n`;
    const { targetImage } = await sluice.request({
      platformAccessToken: user.platformAccessToken,
      containerFile: Buffer.from(dockerfile).toString('base64'),
    });
    const tag = targetImage.slice(targetImage.lastIndexOf(':') + 1);
    const pull: Pull = async route => {
      const response = await sluice.fetch(sluice.at(targetImage, route).slice(sluice.url.length));
      const body = Buffer.from(await response.arrayBuffer());
      return {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body,
        isWhole: true,
        ms: 0,
      };
    };
    const routes = await routesOf(pull, tag);
    await assertServed(pull, routes);
    await user.removeCredentials();
    await assertEnds(pull, routes);
  });

  test('ends for a built image with the layers of a private one', async () => {
    const user = await userOf(sluice, closed, 'included@example.org');
    const dockerfile = `FROM scratch\nLABEL of=${sluice.port}-included\n`;
    const body = {
      platformAccessToken: user.platformAccessToken,
      containerFile: Buffer.from(dockerfile).toString('base64'),
      containerIncludes: [`${closed.host}/corpus/busybox:oci`],
    };
    const { targetImage } = await sluice.request(body);
    const tag = targetImage.slice(targetImage.lastIndexOf(':') + 1);
    const pull = pullOf(sluice, targetImage);
    const frozen = await sluice.request({
      ...body,
      freeze: true,
      buildRepository: `${closed.host}/frozen/included`,
    });
    await (await sluice.fetch(`/v1alpha1/builds/${frozen.buildId}/logs?follow=true`)).text();
    const status = await sluice.fetch(`/v1alpha1/builds/${frozen.buildId}/status`);
    assert.equal(((await status.json()) as { succeeded: boolean }).succeeded, true);
    const routes = await routesOf(pull, tag);
    // The manifest, the config and the included layer.
    assert.equal(routes.length, 3);
    await assertServed(pull, routes);
    await user.removeCredentials();
    await assertEnds(pull, routes);
  });

  test('ends with the account that made the request, and with its access token', async () => {
    const user = await userOf(sluice, closed, 'account@example.org');
    const { targetImage } = await sluice.request({
      platformAccessToken: user.platformAccessToken,
      containerImage: `${closed.host}/corpus/busybox:oci`,
    });
    const pull = pullOf(sluice, targetImage);
    const routes = await routesOf(pull, 'oci');
    await assertServed(pull, routes);
    const authorization = basic('admin', 'secret');
    const { tokens } = (await (
      await sluice.fetch('/platform/tokens?user=account@example.org', {
        headers: { authorization },
      })
    ).json()) as { tokens: { id: number }[] };
    assert.ok(tokens.length > 0);
    for (const { id } of tokens) {
      await sluice.fetch(`/platform/tokens/${id}`, {
        method: 'DELETE',
        headers: { authorization },
      });
    }
    await assertEnds(pull, routes);
  });
});

suite('a registry that changes its mind', { concurrency: 4 }, () => {
  /** An image whose content is stored here completely. */
  const serve = async (world: Awaited<ReturnType<typeof startFaultWorld>>) => {
    const image = world.upstreams.cache.image('team/app');
    const { targetImage } = await world.sluice.request({
      containerImage: image.name,
      containerConfig: change,
    });
    const at =
      (sluice: Sluice): Pull =>
      route =>
        call(sluice.at(targetImage, route));
    const pull = at(world.sluice);
    const routes = await routesOf(pull, 'latest');
    await assertServed(pull, routes);
    return { image, pull, routes, at };
  };
  const respond = (upstream: ScriptedUpstream, part: string, status: number) =>
    upstream.on(part, (_request, response) => response.writeHead(status).end());

  test('ends for an image that it refuses with 401 or 403, and comes back with the right', async () => {
    await using world = await startFaultWorld({ rightLife });
    const { cache } = world.upstreams;
    const { pull, routes } = await serve(world);
    for (const status of [401, 403]) {
      respond(cache, '/v2/team/app/', status);
      await assertEnds(pull, routes);
      cache.on('/v2/team/app/', (_request, _response, serveNow) => serveNow());
      const [manifest = ''] = routes;
      await eventually('it comes back', async () => (await pull(manifest)).status === 200);
      await assertServed(pull, routes);
    }
  });

  test('ends for an image in a hidden repository, not for one that has lost its tag', async () => {
    await using world = await startFaultWorld({ rightLife });
    const { cache } = world.upstreams;
    const { pull, routes, image } = await serve(world);
    cache.put('team/app/tags/list', 'application/json', Buffer.from('{"tags":[]}'));
    respond(cache, `/v2/team/app/manifests/${image.digest}`, 404);
    const asked = () => cache.count('GET', 'tags/list');
    await eventually('the repository is requested', async () => {
      await assertServed(pull, routes);
      return asked() > 1;
    });
    respond(cache, '/v2/team/app/', 404);
    await assertEnds(pull, routes);
  });

  test('does not end for public images while it does not answer, or after a restart', async () => {
    await using world = await startFaultWorld({ rightLife });
    const { pull, routes, at } = await serve(world);
    const { cache } = world.upstreams;
    for (const status of [500, 503, 429]) {
      const before = cache.requests.length;
      respond(cache, '/v2/team/app/', status);
      await eventually('it is asked', async () => {
        await assertServed(pull, routes);
        return cache.requests.length > before + 3;
      });
    }
    await cache.stop();
    await assertServed(pull, routes);
    await world.sluice.kill();
    await using again = await startSluice({
      data: world.sluice.data,
      config: { rightLife, registries: { [cache.host]: { plainHttp: true, blobs: 'cache' } } },
    });
    await assertServed(at(again), routes);
  });

  test('is asked a few times, however many clients pull, and nobody waits for it', async () => {
    await using world = await startFaultWorld({
      rightLife: '6s',
      limits: { pulls: { anonymous: 'off' } },
    });
    const { cache } = world.upstreams;
    const { pull, routes } = await serve(world);
    // The registry answers a question after two more pulls: one that waits for the answer waits in vain.
    let answered = 0;
    let isOver = false;
    let waited = 0;
    cache.on('HEAD /v2/team/app/manifests', (_request, _response, serveNow) => {
      const enough = answered + 2;
      void eventually('two more pulls', () => isOver || answered >= enough, 5000)
        .catch(() => {
          waited += 1;
        })
        .then(serveNow);
    });
    const before = cache.requests.length;
    const began = performance.now();
    while (performance.now() - began < 14_000) {
      for (const route of routes) {
        await pull(route);
        answered += 1;
      }
      await sleep(100);
    }
    isOver = true;
    const asked = cache.requests.length - before;
    assert.ok(asked >= 2 && asked <= 10, `${asked} questions in 14 s for ${answered} answers`);
    assert.equal(waited, 0, `${waited} of ${asked} questions held up a pull`);
  });

  for (const [what, end] of [
    [
      'ends',
      async ({ upstreams }: FaultWorld) =>
        upstreams.relay.on('HEAD /v2/slow/app/', (_request, response) => {
          response.writeHead(403).end();
        }),
    ],
    [
      'whose token is revoked ends',
      async ({ sluice }: FaultWorld, token: string) => {
        const headers = { authorization: basic('admin', 'word') };
        const path = `/container-token/${token}`;
        assert.equal((await sluice.fetch(path, { method: 'DELETE', headers })).status, 200);
      },
    ],
  ] as const) {
    test(`a running transfer ${what}`, { timeout: 60_000 }, async () => {
      await using world = await startFaultWorld({ rightLife, accounts: { admin: 'word' } });
      const { sluice, upstreams } = world;
      const bytes = pattern(1_000_000, 'slow');
      const image = upstreams.relay.image('slow/app', [bytes]);
      const blob = `blobs/${image.layers[0]?.digest}`;
      let isInProgress = false;
      upstreams.relay.on(`GET /v2/slow/app/${blob}`, (_request, response) => {
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(bytes.subarray(0, 500_000));
        const timer = setInterval(() => response.write(bytes.subarray(0, 10)), 50);
        response.once('close', () => clearInterval(timer));
        isInProgress = true;
      });
      const { targetImage, containerToken } = await sluice.request({ containerImage: image.name });
      const running = call(sluice.at(targetImage, blob));
      await eventually('it is in progress', () => isInProgress);
      await end(world, containerToken);
      const reply = await running;
      assert.equal(reply.isWhole, false);
      assert.ok(reply.body.length < bytes.length);
    });
  }
});
