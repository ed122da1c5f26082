/** Registries of every kind of authentication, with TLS and behind a mirror. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { makeImage, pushCorpus } from '../corpus/corpus.ts';
import { Pusher } from '../corpus/push.ts';
import { pull } from '../world/clients.ts';
import { type Registry, type RegistryOptions, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import type { TokenOptions } from '../world/token-service.ts';
import { assertSuccess } from './served.ts';

const image = 'corpus/cfg:full';

/** Starts a registry with one image in it. */
async function startFilled(options: RegistryOptions): Promise<Registry> {
  const registry = await startRegistry(options);
  await pushCorpus(registry, ['cfg:full']);
  return registry;
}

/** The settings of one registry; its token service is on another port and must be named too. */
function settings(registry: Registry, more: object = {}): Record<string, object> {
  const { host, certificates, tokenService } = registry;
  const scheme = certificates ? {} : { plainHttp: true };
  const tokens = tokenService ? { tokenHosts: [new URL(tokenService.realm).host] } : {};
  return { [host]: { ...scheme, ...tokens, ...more } };
}

/** Credentials that serve everybody. */
function account({ username, password }: Registry) {
  return { username, password, anonymous: true };
}

const wrongPassword = 'not this one';

/** A registry, and its settings in the configuration that one server has for all of them. */
interface Kind {
  readonly options: RegistryOptions;
  settings(registry: Registry): Readonly<Record<string, object>>;
}

function kindOf(options: RegistryOptions, more = (_: Registry): object => ({})): Kind {
  return { options, settings: registry => settings(registry, more(registry)) };
}

const withAccount = (options: RegistryOptions) => kindOf(options, account);
const withWrong = (options: RegistryOptions) =>
  kindOf(options, registry => ({ ...account(registry), password: wrongPassword }));
const withToken = (token: TokenOptions) => withAccount({ auth: 'bearer', token });

const kinds = {
  open: kindOf({}),
  basic: withAccount({ auth: 'basic' }),
  'basic, wrong': withWrong({ auth: 'basic' }),
  'basic, missing': kindOf({ auth: 'basic' }),
  'bearer, wrong': withWrong({ auth: 'bearer' }),
  'bearer, missing': kindOf({ auth: 'bearer' }),
  token: withToken({ response: 'token' }),
  access_token: withToken({ response: 'access_token' }),
  both: withToken({ response: 'both' }),
  everybody: kindOf({ auth: 'bearer', token: { anonymousPull: true } }),
  'one token': withToken({ tellsExpiry: false }),
  'expires at the stated time': withToken({ expiresInSeconds: 2 }),
  // A client must assume 60 seconds then: only the registry's 401 shows the end.
  'is refused early': withToken({ expiresInSeconds: 2, tellsExpiry: false }),
  'bearer over TLS': {
    options: { auth: 'bearer', tls: true },
    settings(registry) {
      const ca = registry.certificates?.authority;
      const tokenHost = new URL(registry.tokenService?.realm ?? '').host;
      return { ...settings(registry, { ...account(registry), ca }), [tokenHost]: { ca } };
    },
  },
  TLS: kindOf({ tls: true }, ({ certificates }) => ({ ca: certificates?.authority })),
  'TLS, untrusted': kindOf({ tls: true }),
  unconfigured: { options: {}, settings: () => ({}) },
} as const satisfies Readonly<Record<string, Kind>>;

suite('registries', { concurrency: 2 }, () => {
  const started = new AsyncDisposableStack();
  const registries = new Map<string, Registry>();
  let hub: Registry;
  let sluice: Sluice;
  let root: Root;

  before(async () => {
    root = started.use(await openRoot('bookworm'));
    hub = started.use(await startRegistry());
    const configured: object[] = [settings(hub)];
    for (const [name, kind] of Object.entries(kinds)) {
      const registry = started.use(await startFilled(kind.options));
      registries.set(name, registry);
      configured.push(kind.settings(registry));
    }
    const mirrored = { 'docker.io': { mirrors: [hub.host] } };
    sluice = started.use(
      await startSluice({ config: { registries: Object.assign({}, mirrored, ...configured) } }),
    );
  });
  after(() => started.disposeAsync());

  const registryOf = (name: keyof typeof kinds): Registry => {
    const registry = registries.get(name);
    if (registry === undefined) throw new Error(`${name} was not started`);
    return registry;
  };

  /** Requests the image with a change and pulls it with skopeo, which does not know the registry. */
  async function pullThrough({ host }: Registry, server = sluice): Promise<void> {
    const { targetImage } = await server.request({
      containerImage: `${host}/${image}`,
      containerConfig: { env: ['A=1'] },
    });
    assertSuccess(await pull(root, 'skopeo', targetImage));
  }

  test('without authentication', () => pullThrough(registryOf('open')));

  suite('basic authentication, with credentials', () => {
    const dockerConfig = ({ host, username, password }: Registry) => {
      const auth = Buffer.from(`${username}:${password}`).toString('base64');
      return JSON.stringify({ auths: { [host]: { auth } } });
    };
    const anonymous = (registry: Registry) => settings(registry, { anonymous: true });

    test('from the configuration', () => pullThrough(registryOf('basic')));

    test('from DOCKER_AUTH_CONFIG', async () => {
      const registry = registryOf('basic');
      await using other = await startSluice({
        config: { registries: anonymous(registry) },
        env: { DOCKER_AUTH_CONFIG: dockerConfig(registry) },
      });
      await pullThrough(registry, other);
    });

    test("from Docker's configuration file", async () => {
      const registry = registryOf('basic');
      await using directory = await makeTempDir('docker-config');
      const path = directory.join('config.json');
      await writeFile(path, dockerConfig(registry));
      await using other = await startSluice({
        config: { registries: anonymous(registry), dockerConfig: path },
      });
      await pullThrough(registry, other);
    });

    for (const auth of ['basic', 'bearer'] as const) {
      test(`wrong or missing with ${auth}: 403 with a sentence`, async () => {
        for (const [kind, why] of [
          ['wrong', /the credentials configured for/],
          ['missing', /has no credentials for|refused an anonymous request/],
        ] as const) {
          const registry = registryOf(`${auth}, ${kind}`);
          const response = await sluice.fetch('/v1alpha2/container', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ containerImage: `${registry.host}/${image}` }),
          });
          const { message } = (await response.json()) as { message: string };
          assert.equal(response.status, 403, message);
          assert.match(message, why);
          assert.ok(!message.includes(wrongPassword));
          assert.ok(!sluice.output().includes(wrongPassword));
        }
      });
    }
  });

  suite('bearer authentication', () => {
    for (const response of ['token', 'access_token', 'both'] as const) {
      test(`with a service that answers with ${response}`, async () => {
        const registry = registryOf(response);
        await pullThrough(registry);
        const { requests = [] } = registry.tokenService ?? {};
        assert.deepEqual(requests.at(-1)?.scopes, ['repository:corpus/cfg:pull']);
      });
    }

    test('without credentials, where everybody may pull', async () => {
      const registry = registryOf('everybody');
      await pullThrough(registry);
      assert.equal(registry.tokenService?.requests.at(-1)?.username, undefined);
    });

    test('with one token for all requests of a repository', async () => {
      const registry = registryOf('one token');
      const asked = registry.tokenService?.requests.length ?? 0;
      await pullThrough(registry);
      assert.equal(registry.tokenService?.requests.length, asked + 1);
    });

    for (const what of ['expires at the stated time', 'is refused early'] as const) {
      test(`with a new token when the old one ${what}`, async () => {
        const registry = registryOf(what);
        await pullThrough(registry);
        const asked = registry.tokenService?.requests.length ?? 0;
        await setTimeout(3000);
        await pullThrough(registry);
        const requests = registry.tokenService?.requests ?? [];
        assert.ok(requests.length > asked, 'a new token was requested');
        const refused = requests.filter(({ status }) => status !== 200);
        assert.deepEqual(refused, []);
      });
    }

    test('over TLS, the token service too', () => pullThrough(registryOf('bearer over TLS')));
  });

  test('TLS of a private authority is trusted only if it is configured', async () => {
    await pullThrough(registryOf('TLS'));
    await assert.rejects(
      sluice.request({ containerImage: `${registryOf('TLS, untrusted').host}/${image}` }),
      /400: .*certificate that is not trusted.*\.ca/,
    );
  });

  test('an unconfigured registry at a loopback address is refused', async () => {
    const registry = registryOf('unconfigured');
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
    const pusher = await Pusher.open(hub, 'library/alpine');
    const base = await makeImage('multi:index');
    await pusher.push(base, 'latest');
    await pusher.close();
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
