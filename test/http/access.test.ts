/** Who may use a server: the settings `access`, and the callers that the operator's credentials serve. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { assertApiFault, assertRegistryFault, call, type Reply } from '../faults/http-client.ts';
import { assertSuccess } from '../integration/served.ts';
import { login, pull } from '../world/clients.ts';
import { freePort } from '../world/free-port.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot } from '../world/root.ts';
import { type Sluice, type SluiceOptions, startSluice } from '../world/sluice.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { basic } from './platform/platform-server.ts';

const admin = { name: 'admin', password: 'secret' };
const administrator = basic('admin', 'secret');
const accounts = { admin: 'secret', ci: { password: 'word', repositories: { 'team/*': 'push' } } };
const dockerfile = Buffer.from('FROM scratch\nCOPY a /a\n').toString('base64');

/** Every request that the switches are for. */
const requests = [
  { what: 'a container', path: '/v1alpha2/container', isBuild: false },
  { what: 'a container, by the older route', path: '/container-token', isBuild: false },
  { what: 'a dry run', path: '/v1alpha2/container', more: { dryRun: true }, isBuild: false },
  { what: 'an inspection', path: '/v1alpha1/inspect', isBuild: false },
  {
    what: 'a check of credentials',
    path: '/v1alpha2/validate-creds',
    body: { userName: 'u', password: 'p' },
    isBuild: false,
  },
  {
    what: 'a build',
    path: '/v1alpha2/container',
    body: { containerFile: dockerfile },
    isBuild: true,
  },
  {
    what: 'the dry run of a build',
    path: '/v1alpha2/container',
    body: { containerFile: dockerfile, dryRun: true },
    isBuild: true,
  },
  {
    what: 'packages',
    path: '/v1alpha2/container',
    body: { packages: { type: 'CONDA', entries: ['samtools'] } },
    isBuild: true,
  },
  { what: 'a frozen image', path: '/v1alpha2/container', more: { freeze: true }, isBuild: true },
] as const;

suite('access', { concurrency: 4 }, () => {
  let registry: Registry;
  let closed: Registry;
  let image: Pushed;
  let secret: Pushed;

  before(async () => {
    registry = await startRegistry();
    closed = await startRegistry({ auth: 'basic' });
    image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci') as Pushed;
    secret = (await pushCorpus(closed, ['busybox:oci'])).get('busybox:oci') as Pushed;
  });
  after(async () => {
    await closed?.stop();
    await registry?.stop();
  });

  const start = (config: object, options: SluiceOptions = {}) =>
    startSluice({
      ...options,
      config: { accounts, registries: { [registry.host]: { plainHttp: true } }, ...config },
    });
  const ask = (
    sluice: Sluice,
    request: (typeof requests)[number],
    headers: Record<string, string> = {},
    claim: object = {},
  ): Promise<Reply> => {
    const own = 'body' in request ? request.body : { containerImage: image.reference };
    const more = 'more' in request ? request.more : {};
    const host = request.path.endsWith('creds') ? { registry: registry.host } : {};
    return call(sluice.url + request.path, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ ...own, ...more, ...host, ...claim }),
    });
  };
  const isLetIn = ({ status, body }: Reply) => {
    assert.ok(![401, 403].includes(status), `${status} ${body}`);
  };

  for (const setting of ['requests', 'builds'] as const) {
    const concerned = requests.filter(({ isBuild }) => setting === 'requests' || isBuild);
    const others = requests.filter(request => !concerned.includes(request));

    test(`${setting}: login lets only accounts and users in`, async () => {
      await using sluice = await start({ access: { [setting]: 'login' } });
      const token = await newAccessToken(sluice, admin, 'ada@example.org');
      for (const request of concerned) {
        const refused = await ask(sluice, request);
        assertApiFault(refused, 401, /requires a login .*platformAccessToken.*account/);
        assert.match(String(refused.headers['www-authenticate']), /^Basic /);
        assertApiFault(
          await ask(sluice, request, { authorization: basic('ci', 'no') }),
          401,
          /account/,
        );
        assertApiFault(await ask(sluice, request, { authorization: 'Bearer no' }), 403, /token/);
        isLetIn(await ask(sluice, request, { authorization: basic('ci', 'word') }));
        isLetIn(await ask(sluice, request, { authorization: `Bearer ${token}` }));
        if (!request.path.endsWith('creds')) {
          isLetIn(await ask(sluice, request, {}, { platformAccessToken: token }));
        }
      }
      for (const request of others) isLetIn(await ask(sluice, request));
      await sluice.requests();
      assert.match(sluice.output(), new RegExp(`access\\.${setting} is 'login'`));
    });
  }

  test('requests: off lets nobody in', async () => {
    await using sluice = await start({ access: { requests: 'off' } });
    for (const request of requests) {
      for (const authorization of [undefined, administrator]) {
        const reply = await ask(sluice, request, authorization ? { authorization } : {});
        assertApiFault(reply, 403, /accepts no .*disabled them/);
      }
    }
    await sluice.requests();
    assert.match(sluice.output(), /access\.requests is 'off'/);
  });

  // config/access.test.ts has the default of other places.
  test('by default, callers without a login build nothing under a public name', async () => {
    await using sluice = await start({ url: 'https://images.example.com' });
    for (const request of requests) {
      const reply = await ask(sluice, request);
      if (request.isBuild) assertApiFault(reply, 401, /requires a login/);
      else isLetIn(reply);
    }
  });

  test('pulls: login serves real clients only after a login', async () => {
    await using sluice = await start({ access: { pulls: 'login' } });
    const token = await newAccessToken(sluice, admin, 'ada@example.org');
    const { targetImage } = await sluice.request({ containerImage: image.reference });
    for (const headers of [
      {},
      { authorization: basic('ci', 'no') },
      { authorization: 'Bearer no' },
    ]) {
      const reply = await call(sluice.at(targetImage, 'manifests/oci'), { headers });
      assertRegistryFault(reply, { status: 401, code: 'UNAUTHORIZED', message: /log|token/ });
      const challenge = String(reply.headers['www-authenticate']);
      assert.match(challenge, /^Bearer realm="[^"]+\/v2\/token",.*scope="repository:ct\/.*:pull"/);
    }
    // Anybody gets a token, which is no login, and gives no right to get another one.
    const scope = `repository:${targetImage.slice(sluice.host.length + 1).replace(/:[^:]*$/, '')}:pull`;
    const issued = async (headers = {}) => {
      const url = `${sluice.url}/v2/token?scope=${encodeURIComponent(scope)}`;
      return JSON.parse((await call(url, { headers })).body.toString()).token as string;
    };
    const anonymous = await issued();
    const exchanged = await issued({ authorization: basic('token', anonymous) });
    const held = await issued({ authorization: basic('ci', 'word') });
    const renewed = await issued({ authorization: basic('token', held) });
    for (const [text, status] of [
      ...[[anonymous, 401] as const, [exchanged, 401] as const],
      ...[[held, 200] as const, [renewed, 200] as const],
    ]) {
      for (const authorization of [basic('token', text), `Bearer ${text}`]) {
        const url = sluice.at(targetImage, 'manifests/oci');
        assert.equal(
          (await call(url, { headers: { authorization } })).status,
          status,
          authorization,
        );
      }
    }
    await using root = await openRoot('bookworm');
    assert.notEqual((await pull(root, 'skopeo', targetImage)).code, 0, 'without a login');
    const wrong = { username: 'token', password: 'sluice_0123456789abcdef' };
    assert.notEqual((await login(root, 'skopeo', sluice.host, wrong)).code, 0);
    for (const account of [
      { username: 'token', password: token },
      { username: 'ci', password: 'word' },
    ]) {
      assertSuccess(await login(root, 'skopeo', sluice.host, account));
      assertSuccess(await pull(root, 'skopeo', targetImage), account.username);
      assertSuccess(await pull(root, 'podman', targetImage, { account }), account.username);
    }
  });

  test('pulls: login works without accounts, with access tokens', async () => {
    await using first = await start({});
    const token = await newAccessToken(first, admin, 'ada@example.org');
    await first.kill();
    await using sluice = await startSluice({
      data: first.data,
      config: {
        access: { pulls: 'login' },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    const { targetImage } = await sluice.request({ containerImage: image.reference });
    await using root = await openRoot('bookworm');
    const account = { username: 'token', password: token };
    assertSuccess(await login(root, 'skopeo', sluice.host, account));
    assertSuccess(await pull(root, 'skopeo', targetImage));
  });

  test('pulls: off serves nothing', async () => {
    const port = await freePort();
    await using directory = await makeTempDir('pulls-off');
    const data = directory.join('data');
    const startAgain = (config: object) => start(config, { data, port });
    const open = await startAgain({});
    const { targetImage } = await open.request({ containerImage: image.reference });
    await open.stop();
    await using sluice = await startAgain({ access: { pulls: 'off' } });
    const says = /switched off pulls of served names \(its setting 'access\.pulls' is 'off'\)/;
    const [, repository = ''] = /^[^/]+\/(.+):[^:]+$/.exec(targetImage) ?? [];
    const token = await call(
      `${sluice.url}/v2/token?service=x&scope=repository:${repository}:pull`,
    );
    const bearer = `Bearer ${JSON.parse(String(token.body)).token}`;
    for (const authorization of [undefined, administrator, bearer]) {
      const headers = authorization ? { authorization } : {};
      for (const route of ['manifests/oci', `blobs/sha256:${'0'.repeat(64)}`, 'tags/list']) {
        const reply = await call(sluice.at(targetImage, route), { headers });
        assertRegistryFault(reply, { status: 403, code: 'DENIED', message: says });
      }
      const head = await fetch(sluice.at(targetImage, 'manifests/oci'), {
        method: 'HEAD',
        headers,
      });
      assert.equal(head.status, 403);
      assert.match(head.statusText, says);
    }
    // Nobody gets a name that nobody can pull.
    for (const request of requests.filter(({ path }) => /container/.test(path))) {
      const reply = await ask(sluice, request, { authorization: administrator });
      if (request.what === 'a frozen image') isLetIn(reply);
      else assertApiFault(reply, 403, says);
    }
    await using root = await openRoot('bookworm');
    const pulled = await pull(root, 'skopeo', targetImage);
    assert.match(pulled.stderr, says);
  });

  test('a rate of 0 refuses every request, however long the caller waits', async () => {
    await using sluice = await start({
      limits: { requests: { anonymous: '0/hour' }, builds: { authenticated: 0 } },
    });
    const token = await newAccessToken(sluice, admin, 'ada@example.org');
    assertApiFault(await ask(sluice, requests[0]), 403, /allows no container requests/);
    isLetIn(await ask(sluice, requests[0], {}, { platformAccessToken: token }));
  });

  suite("the operator's credentials", () => {
    const auth = () => Buffer.from(`${closed.username}:${closed.password}`).toString('base64');
    const own = () => ({ username: closed.username, password: closed.password });
    // The same registry, which serves everybody under this name only.
    const openHost = () => closed.host.replace('127.0.0.1', 'localhost');
    const hosts = () => [closed.host, openHost()];
    const docker = () =>
      JSON.stringify({ auths: Object.fromEntries(hosts().map(host => [host, { auth: auth() }])) });
    const places = [
      ['of the configuration', () => own(), () => ({})],
      ['of a Docker configuration', () => ({}), () => ({ DOCKER_AUTH_CONFIG: docker() })],
    ] as const;
    for (const [where, settings, env] of places) {
      test(`${where} serve no callers without a login, except where the registry says so`, async () => {
        const registries = Object.fromEntries(
          hosts().map(host => [
            host,
            {
              ...settings(),
              plainHttp: true,
              ...(host === closed.host ? {} : { anonymous: true }),
            },
          ]),
        );
        await using sluice = await startSluice({ config: { accounts, registries }, env: env() });
        const token = await newAccessToken(sluice, admin, 'ada@example.org');
        for (const host of hosts()) {
          const anonymous = host !== closed.host;
          const containerImage = secret.reference.replace(closed.host, host);
          const reach = async (headers: Record<string, string>) => {
            const statuses: number[] = [];
            for (const path of ['/v1alpha2/container', '/v1alpha1/inspect']) {
              const reply = await call(sluice.url + path, {
                method: 'POST',
                headers: { ...headers, 'content-type': 'application/json' },
                body: JSON.stringify({ containerImage }),
              });
              if (reply.status !== 200) {
                assertApiFault(reply, 403, /has no credentials for .* that this caller may use/);
              } else if (path.endsWith('container')) {
                const { targetImage } = JSON.parse(reply.body.toString());
                const manifest = await call(sluice.at(targetImage, 'manifests/oci'));
                assert.equal(manifest.status, 200);
              }
              statuses.push(reply.status);
            }
            assert.equal(statuses[0], statuses[1]);
            return statuses[0];
          };
          assert.equal(await reach({}), anonymous ? 200 : 403, host);
          // An account with rights to repositories has those rights only.
          const ci = { authorization: basic('ci', 'word') };
          assert.equal(await reach(ci), anonymous ? 200 : 403, host);
          assert.equal(await reach({ authorization: administrator }), 200, host);
          assert.equal(await reach({ authorization: `Bearer ${token}` }), 403, host);
        }
      });
    }

    test('for a mirror are used where everybody may have its content', async () => {
      await using sluice = await startSluice({
        config: {
          registries: {
            'closed.invalid': { mirrors: [closed.host] },
            'open.invalid': { mirrors: [openHost()] },
            [closed.host]: { plainHttp: true, ...own() },
            [openHost()]: { plainHttp: true, ...own(), anonymous: true },
          },
        },
      });
      for (const [host, mirror, status] of [
        ['closed.invalid', closed.host, 400],
        ['open.invalid', openHost(), 200],
      ] as const) {
        const { repository, tag } = secret;
        const reply = await call(`${sluice.url}/v1alpha2/container`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ containerImage: `${host}/${repository}:${tag}` }),
        });
        assert.equal(reply.status, status, reply.body.toString());
        const warning = `The mirror ${mirror} serves all callers, so Sluice does not send its cred`;
        assert.equal(sluice.output().includes(warning), status !== 200, mirror);
      }
    });
  });
});
