/** Registries of every kind of authentication, with TLS and behind a mirror. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { makeImage, pushCorpus } from '../corpus/corpus.ts';
import { Pusher } from '../corpus/push.ts';
import { pull } from '../world/clients.ts';
import { type Registry, type RegistryOptions, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, type SluiceOptions, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { assertSuccess, plainRegistries } from './served.ts';

const image = 'corpus/cfg:full';

/** Starts a registry with one image in it. */
async function startFilled(options: RegistryOptions): Promise<Registry> {
  const registry = await startRegistry(options);
  await pushCorpus(registry, ['cfg:full']);
  return registry;
}

/** The settings of one registry; its token service is on another port and must be named too. */
function settings(registry: Registry, more: object = {}): object {
  const { host, certificates, tokenService } = registry;
  const scheme = certificates ? {} : { plainHttp: true };
  const tokens = tokenService ? { tokenHosts: [new URL(tokenService.realm).host] } : {};
  return { registries: { [host]: { ...scheme, ...tokens, ...more } } };
}

/** Credentials that serve everybody. */
function account({ username, password }: Registry) {
  return { username, password, anonymous: true };
}

/** Requests the image with a change and pulls it with skopeo, which does not know the registry. */
async function pullThrough(registry: Registry, options: SluiceOptions): Promise<void> {
  await using sluice = await startSluice(options);
  await using root = await openRoot('bookworm');
  await pullOnce(registry, sluice, root);
}

async function pullOnce(
  { host }: Registry,
  sluice: Sluice,
  root: Awaited<ReturnType<typeof openRoot>>,
): Promise<void> {
  const { targetImage } = await sluice.request({
    containerImage: `${host}/${image}`,
    containerConfig: { env: ['A=1'] },
  });
  assertSuccess(await pull(root, 'skopeo', targetImage));
}

suite('registries', { concurrency: 2 }, () => {
  test('without authentication', async () => {
    await using registry = await startFilled({});
    await pullThrough(registry, { config: settings(registry) });
  });

  suite('basic authentication, with credentials', () => {
    const dockerConfig = ({ host, username, password }: Registry) => {
      const auth = Buffer.from(`${username}:${password}`).toString('base64');
      return JSON.stringify({ auths: { [host]: { auth } } });
    };

    test('from the configuration', async () => {
      await using registry = await startFilled({ auth: 'basic' });
      await pullThrough(registry, { config: settings(registry, account(registry)) });
    });

    test('from DOCKER_AUTH_CONFIG', async () => {
      await using registry = await startFilled({ auth: 'basic' });
      await pullThrough(registry, {
        config: settings(registry, { anonymous: true }),
        env: { DOCKER_AUTH_CONFIG: dockerConfig(registry) },
      });
    });

    test("from Docker's configuration file", async () => {
      await using registry = await startFilled({ auth: 'basic' });
      await using directory = await makeTempDir('docker-config');
      await writeFile(directory.join('config.json'), dockerConfig(registry));
      await pullThrough(registry, {
        config: {
          ...settings(registry, { anonymous: true }),
          dockerConfig: directory.join('config.json'),
        },
      });
    });

    for (const auth of ['basic', 'bearer'] as const) {
      test(`wrong or missing with ${auth}: 403 with a sentence`, async () => {
        await using registry = await startFilled({ auth });
        const wrong = { ...account(registry), password: 'not this one' };
        for (const [more, why] of [
          [wrong, /the credentials configured for/],
          [{}, /has no credentials for|refused an anonymous request/],
        ] as const) {
          await using sluice = await startSluice({ config: settings(registry, more) });
          const answer = await sluice.fetch('/v1alpha2/container', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ containerImage: `${registry.host}/${image}` }),
          });
          const { message } = (await answer.json()) as { message: string };
          assert.equal(answer.status, 403, message);
          assert.match(message, why);
          assert.ok(!message.includes(wrong.password));
          assert.ok(!sluice.output().includes(wrong.password));
        }
      });
    }
  });

  suite('bearer authentication', () => {
    for (const answer of ['token', 'access_token', 'both'] as const) {
      test(`with a service that answers with ${answer}`, async () => {
        await using registry = await startFilled({ auth: 'bearer', token: { answer } });
        await pullThrough(registry, { config: settings(registry, account(registry)) });
        const { questions = [] } = registry.tokenService ?? {};
        assert.deepEqual(questions.at(-1)?.scopes, ['repository:corpus/cfg:pull']);
      });
    }

    test('without credentials, where everybody may pull', async () => {
      await using registry = await startFilled({ auth: 'bearer', token: { anonymousPull: true } });
      await pullThrough(registry, { config: settings(registry) });
      assert.equal(registry.tokenService?.questions.at(-1)?.username, undefined);
    });

    test('with one token for all requests of a repository', async () => {
      await using registry = await startFilled({ auth: 'bearer', token: { tellsExpiry: false } });
      const asked = registry.tokenService?.questions.length ?? 0;
      await pullThrough(registry, { config: settings(registry, account(registry)) });
      assert.equal(registry.tokenService?.questions.length, asked + 1);
    });

    for (const [what, token] of [
      ['expires at the stated time', { expiresInSeconds: 2 }],
      // A client must assume 60 seconds then: only the registry's 401 shows the end.
      ['is refused early', { expiresInSeconds: 2, tellsExpiry: false }],
    ] as const) {
      test(`with a new token when the old one ${what}`, async () => {
        await using registry = await startFilled({ auth: 'bearer', token });
        await using sluice = await startSluice({
          config: settings(registry, account(registry)),
        });
        await using root = await openRoot('bookworm');
        await pullOnce(registry, sluice, root);
        const asked = registry.tokenService?.questions.length ?? 0;
        await setTimeout(3000);
        await pullOnce(registry, sluice, root);
        const questions = registry.tokenService?.questions ?? [];
        assert.ok(questions.length > asked, 'a new token was requested');
        const refused = questions.filter(({ status }) => status !== 200);
        assert.deepEqual(refused, []);
      });
    }

    test('over TLS, the token service too', async () => {
      await using registry = await startFilled({ auth: 'bearer', tls: true });
      const ca = registry.certificates?.authority;
      const { registries } = settings(registry, { ...account(registry), ca }) as {
        registries: Record<string, object>;
      };
      const tokenHost = new URL(registry.tokenService?.realm ?? '').host;
      await pullThrough(registry, {
        config: { registries: { ...registries, [tokenHost]: { ca } } },
      });
    });
  });

  test('TLS of a private authority is trusted only if it is configured', async () => {
    await using registry = await startFilled({ tls: true });
    const ca = registry.certificates?.authority;
    await pullThrough(registry, { config: settings(registry, { ca }) });
    await using sluice = await startSluice({ config: settings(registry) });
    await assert.rejects(
      sluice.request({ containerImage: `${registry.host}/${image}` }),
      /400: .*certificate that is not trusted.*\.ca/,
    );
  });

  test('an unconfigured registry at a loopback address is refused', async () => {
    await using registry = await startFilled({});
    await using sluice = await startSluice();
    await assert.rejects(
      sluice.request({ containerImage: `${registry.host}/${image}` }),
      /400: .*loopback.*registries\.127\.0\.0\.1:\d+\.allowPrivateAddress/,
    );
    assert.deepEqual(
      registry.requests.filter(({ userAgent }) => userAgent === 'sluice'),
      [],
    );
  });

  test('a mirror of Docker Hub is used under every name of Docker Hub', async () => {
    await using registry = await startRegistry();
    const pusher = await Pusher.open(registry, 'library/alpine');
    const base = await makeImage('multi:index');
    await pusher.push(base, 'latest');
    await pusher.close();
    const { registries } = plainRegistries(registry.host) as { registries: object };
    const mirrored = { registries: { ...registries, 'docker.io': { mirrors: [registry.host] } } };
    await using sluice = await startSluice({ config: mirrored });
    await using root = await openRoot('bookworm');
    const names = [
      ...['alpine', 'library/alpine', 'docker.io/alpine', 'docker.io/library/alpine'],
      ...['index.docker.io/library/alpine', 'registry-1.docker.io/library/alpine'],
    ];
    const digests = new Set<string>();
    for (const name of names) {
      for (const suffix of ['', ':latest', `@${base.root.digest}`]) {
        const { digest, targetImage } = await sluice.request({
          containerImage: `${name}${suffix}`,
          containerConfig: { env: ['A=1'] },
        });
        digests.add(digest);
        const tail = suffix.startsWith('@') ? `@${digest}` : ':latest';
        assert.ok(targetImage.endsWith(`/library/alpine${tail}`), targetImage);
        if (suffix === '') assertSuccess(await pull(root, 'skopeo', targetImage), name);
      }
    }
    // A changed image names its base, with the tag or without.
    assert.equal(digests.size, 2);
  });
});
