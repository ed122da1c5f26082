/** Access tokens with limits: every combination of scopes on every route where a token counts. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TokenScope, tokenScopes } from '../../../src/platform/token-rights.ts';
import { type Pushed, pushCorpus } from '../../corpus/corpus.ts';
import { call, type Reply } from '../../faults/http-client.ts';
import { type Registry, startRegistry } from '../../world/registry.ts';
import { type Sluice, startSluice } from '../../world/sluice.ts';
import { administrator, basic, jsonOf } from './platform-server.ts';

interface Door {
  readonly what: string;
  /** The scopes that it requires, the first one that is missed first. */
  readonly needs: readonly TokenScope[];
  ask(sluice: Sluice, token: string): Promise<Reply>;
}

const dockerfile = Buffer.from('FROM scratch\nCOPY a /a\n').toString('base64');
let registry: Registry;
let closed: Registry;
let image: Pushed;
let sluice: Sluice;
let served: string;
let credentials: string;
let build: string;
before(async () => {
  registry = await startRegistry();
  closed = await startRegistry({ auth: 'basic' });
  image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci') as Pushed;
  sluice = await startSluice({
    config: {
      access: { requests: 'login', builds: 'login', pulls: 'login' },
      accounts: { admin: 'admin-s3cret' },
      registries: {
        [registry.host]: { plainHttp: true },
        [closed.host]: { plainHttp: true },
      },
    },
  });
  await platform('POST', '/users', administrator, { email: 'ada@example.org' });
  const whole = await tokenWith({});
  const body = { containerImage: image.reference };
  served = jsonOf(await post('/v1alpha2/container', whole, body)).targetImage;
  const frozen = { ...body, freeze: true, buildRepository: `${registry.host}/frozen` };
  build = jsonOf(await post('/v1alpha2/container', whole, frozen)).buildId;
  const keys = { registry: closed.host, userName: 'u', password: 'p' };
  const added = await platform('POST', '/credentials', `Bearer ${whole}`, {
    credentials: { keys },
  });
  credentials = jsonOf(added).credentialsId;
});
after(async () => {
  await sluice?.stop();
  await closed?.stop();
  await registry?.stop();
});

const sent = (method: string, body?: unknown) => ({
  method,
  ...(body === undefined ? {} : { body: JSON.stringify(body) }),
});
const platform = (method: string, path: string, authorization: string, body?: unknown) =>
  call(`${sluice.url}/platform${path}`, {
    headers: { authorization, 'content-type': 'application/json' },
    ...sent(method, body),
  });
const post = (path: string, token: string, body: object, server = sluice) =>
  call(server.url + path, {
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...sent('POST', body),
  });
const get = (path: string, authorization: string, method = 'GET') =>
  call(sluice.url + path, { method, headers: { authorization, accept: 'text/html' } });

const made = new Map<string, string>();
/** Returns a token with these limits, the same each time. */
async function tokenWith(limits: object): Promise<string> {
  const name = JSON.stringify(limits).slice(0, 100);
  const known = made.get(name);
  if (known !== undefined) return known;
  const request = { name, user: 'ada@example.org', ...limits };
  const reply = await platform('POST', '/tokens', administrator, request);
  assert.equal(reply.status, 200, String(reply.body));
  const { accessKey } = jsonOf(reply) as { accessKey: string };
  made.set(name, accessKey);
  return accessKey;
}

/** Repeats a call that comes too early: an access token has 20 in a second. */
async function patiently(ask: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await ask();
    if (reply.status !== 429) return reply;
    await sleep(Number(reply.headers['retry-after']) * 1000);
  }
}

const bearer = (token: string) => `Bearer ${token}`;
const nameIn = (image: string) => image.slice(sluice.host.length + 1).replace(/:[^:]*$/, '');
/** The response to a token request of `docker login`, then a pull with the token. */
async function dockerPull(token: string, image = served): Promise<Reply> {
  const scope = encodeURIComponent(`repository:${nameIn(image)}:pull`);
  const url = `${sluice.url}/v2/token?scope=${scope}`;
  const issued = await call(url, { headers: { authorization: basic('token', token) } });
  if (issued.status !== 200) return issued;
  const headers = { authorization: bearer(jsonOf(issued).token) };
  return call(sluice.at(image, 'manifests/oci'), { headers });
}
const form = (path: string, token: string, body: string) =>
  call(sluice.url + path, {
    method: 'POST',
    headers: {
      authorization: bearer(token),
      accept: 'text/html',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body,
  });

/** Logs a browser in, and sends what follows with its cookie. */
async function inSession(token: string, path: string, body?: string): Promise<Reply> {
  const login = await call(`${sluice.url}/view/login`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      'sec-fetch-site': 'same-origin',
    },
    body: new URLSearchParams({ token }).toString(),
  });
  assert.equal(login.status, 303, String(login.body));
  const cookie = String(login.headers['set-cookie']).split(';')[0] ?? '';
  return call(sluice.url + path, {
    headers: {
      ...{ cookie, accept: 'text/html', 'sec-fetch-site': 'same-origin' },
      ...(body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
    },
    ...(body === undefined ? {} : { method: 'POST', body }),
  });
}

const asked = () => ({ containerImage: image.reference });
const door = (
  what: string,
  needs: readonly TokenScope[],
  ask: (token: string) => Promise<Reply>,
): Door => ({ what, needs, ask: (_, token) => ask(token) });

const doors: readonly Door[] = [
  door('a request', ['request'], token => post('/v1alpha2/container', token, asked())),
  door('a request, token in the body', ['request'], token =>
    call(`${sluice.url}/container-token`, {
      headers: { 'content-type': 'application/json' },
      ...sent('POST', { ...asked(), platformAccessToken: token }),
    }),
  ),
  door('a dry run', ['request'], token =>
    post('/v1alpha2/container', token, { ...asked(), dryRun: true }),
  ),
  door('an inspection', ['request'], token => post('/v1alpha1/inspect', token, asked())),
  door('a check of credentials', ['request'], token =>
    post('/v1alpha2/validate-creds', token, {
      ...{ registry: registry.host, userName: 'u', password: 'p' },
    }),
  ),
  door('a build', ['request', 'build'], token =>
    post('/v1alpha2/container', token, { containerFile: dockerfile }),
  ),
  door('a frozen image', ['request', 'build'], token =>
    post('/v1alpha2/container', token, { ...asked(), freeze: true }),
  ),
  door('a build context', ['request', 'build'], token => post('/v1alpha1/contexts', token, {})),
  door('the end of a request', ['request'], async token => {
    const whole = await tokenWith({ scopes: ['request'] });
    const made = jsonOf(await post('/v1alpha2/container', whole, asked()));
    return get(
      `/container-token/${made.containerToken ?? made.requestId}`,
      bearer(token),
      'DELETE',
    );
  }),
  door('the end of a build', ['build'], token =>
    get(`/v1alpha1/builds/${build}`, bearer(token), 'DELETE'),
  ),
  door('a login of docker, and a pull', ['pull'], token => dockerPull(token)),
  door('a pull with the password', ['pull'], token =>
    call(sluice.at(served, 'manifests/oci'), {
      headers: { authorization: basic('token', token) },
    }),
  ),
  door('a ping', ['pull'], token => get('/v2/', basic('token', token))),
  door('the list of repositories', ['pull'], token => get('/v2/_catalog', basic('token', token))),
  door('the user', [], token => platform('GET', '/user-info', bearer(token))),
  door('workspaces', [], token => platform('GET', '/workspaces', bearer(token))),
  door('the list of tokens', ['manage'], token => platform('GET', '/tokens', bearer(token))),
  door('the list of credentials', ['manage'], token =>
    platform('GET', '/credentials', bearer(token)),
  ),
  door('the secret of credentials', ['manage'], token =>
    platform('GET', `/credentials/${credentials}/keys`, bearer(token)),
  ),
  door('the same, as a password', ['manage'], token =>
    platform('GET', `/credentials/${credentials}/keys`, basic('@token', token)),
  ),
  door('the same, by the other base', ['manage'], token =>
    get(`/platform/api/credentials/${credentials}/keys`, bearer(token)),
  ),
  door('the removal of credentials', ['manage'], token =>
    platform('DELETE', '/credentials/absent', bearer(token)),
  ),
  door('new credentials', ['manage'], token =>
    platform('POST', '/credentials', bearer(token), {
      credentials: { name: `${Math.random()}`, keys: { userName: 'u', password: 'p' } },
    }),
  ),
  door('the end of a token', ['manage'], token =>
    platform('DELETE', '/tokens/999999', bearer(token)),
  ),
  door('a token', ['manage'], token =>
    platform('POST', '/tokens', bearer(token), { name: `${Math.random()}` }),
  ),
  door('a token, by the page', ['manage'], token =>
    form('/view/account/tokens', token, `name=${Math.random()}&scope=manage`),
  ),
  door('a token, by a session', ['manage'], token =>
    inSession(token, '/view/account/tokens', `name=${Math.random()}&scope=manage`),
  ),
  door('the end of a token, by the page', ['manage'], token =>
    form('/view/account/tokens/999999/revoke', token, ''),
  ),
  door('the removal of credentials, by the page', ['manage'], token =>
    form('/view/account/credentials/absent/remove', token, ''),
  ),
  door('the list of builds', ['build'], token => get('/view/builds', bearer(token))),
  door('an inspection, by the page', ['request'], token =>
    inSession(token, `/view/inspect?image=${image.reference}`),
  ),
];

const combinations = Array.from({ length: 2 ** tokenScopes.length - 1 }, (_, at) =>
  tokenScopes.filter((_, bit) => ((at + 1) >> bit) & 1),
);

suite('access tokens with limits', () => {
  for (const { what, needs, ask } of doors) {
    test(`${what} requires ${needs.join(' and ') || 'no scope'}`, async () => {
      for (const scopes of combinations) {
        const reply = await ask(sluice, await tokenWith({ scopes }));
        const missing = needs.find(scope => !scopes.includes(scope));
        const about = `${scopes}: ${reply.status} ${reply.body}`;
        if (missing === undefined) assert.ok(![401, 403].includes(reply.status), about);
        else {
          assert.equal(reply.status, 403, about);
          assert.match(String(reply.body), new RegExp(`scope (?:'|&#39;)${missing}`), about);
        }
      }
    });
  }

  test('no token creates a wider one', async () => {
    for (const own of combinations) {
      const token = await tokenWith({ scopes: own });
      for (const wanted of combinations) {
        const request = { name: `${own} ${wanted}`, scopes: wanted };
        const reply = await patiently(() => platform('POST', '/tokens', bearer(token), request));
        const isNarrower = own.includes('manage') && wanted.every(scope => own.includes(scope));
        assert.equal(reply.status, isNarrower ? 200 : 403, `${own} -> ${wanted}: ${reply.body}`);
        if (!isNarrower) continue;
        assert.deepEqual(jsonOf(reply).token.scopes, wanted);
        await platform('DELETE', `/tokens/${jsonOf(reply).token.id}`, administrator);
      }
      if (!own.includes('manage')) continue;
      const plain = await patiently(() =>
        platform('POST', '/tokens', bearer(token), { name: `${own}` }),
      );
      assert.deepEqual(jsonOf(plain).token.scopes, own, 'the default is not more');
    }
  });

  test('limits that exclude each other, or mean nothing, are refused', async () => {
    for (const limits of [
      { scopes: [] },
      { scopes: ['all'] },
      { repositories: [] },
      { repositories: ['a b'] },
      { repositories: ['x'.repeat(256)] },
      { repositories: Array.from({ length: 51 }, (_, at) => `a${at}`) },
      { scopes: ['manage'], repositories: ['team/*'] },
    ]) {
      const request = { name: 'odd', user: 'ada@example.org', ...limits };
      const reply = await platform('POST', '/tokens', administrator, request);
      assert.equal(reply.status, 400, `${JSON.stringify(limits)}: ${reply.body}`);
    }
  });

  test('a token uses only its repositories: in requests, pulls and inspections', async () => {
    const one = image.reference;
    const repository = one.replace(/:[^:/]*$/, '');
    const within = await tokenWith({ repositories: [repository] });
    const elsewhere = await tokenWith({ repositories: [`${registry.host}/other/*`] });
    const ask = (path: string, token: string, containerImage: string) =>
      post(path, token, { containerImage });
    for (const path of ['/v1alpha2/container', '/container-token', '/v1alpha1/inspect']) {
      assert.equal((await ask(path, within, one)).status, 200, path);
      const refused = await ask(path, elsewhere, one);
      assert.equal(refused.status, 403, `${path}: ${refused.body}`);
      assert.match(String(refused.body), /limited to certain repositories/);
    }
    const pull = (token: string) =>
      call(sluice.at(served, 'manifests/oci'), {
        headers: { authorization: basic('token', token) },
      });
    assert.equal((await dockerPull(within)).status, 200);
    assert.equal((await pull(within)).status, 200);
    assert.notEqual((await dockerPull(elsewhere)).status, 200);
    assert.equal((await pull(elsewhere)).status, 403);
    // Its own names it may pull.
    const made = jsonOf(await ask('/v1alpha2/container', within, one)).targetImage;
    assert.equal((await dockerPull(within, made)).status, 200);
  });

  test('a token for certain repositories sees and cancels no builds of other tokens of its user', async () => {
    const [whole, limited] = [
      await tokenWith({}),
      await tokenWith({ repositories: [`${registry.host}/*`] }),
    ];
    const ask = (path: string, token: string, method = 'GET') =>
      patiently(() => get(path, bearer(token), method));
    const lists = async (token: string) =>
      String((await ask('/view/builds', token)).body).includes(`/view/builds/${build}`);
    assert.deepEqual([await lists(whole), await lists(limited)], [true, false]);
    const path = `/v1alpha1/builds/${build}`;
    assert.equal((await ask(path, whole, 'DELETE')).status, 200);
    const refused = await ask(path, limited, 'DELETE');
    assert.match(String(refused.body), /Only the caller who requested a build/);
    const own = {
      containerImage: image.reference,
      freeze: true,
      containerConfig: { env: ['OF=limited'] },
    };
    const request = { ...own, buildRepository: `${registry.host}/frozen` };
    const { buildId } = jsonOf(await post('/v1alpha2/container', limited, request));
    assert.match(String((await ask('/view/builds', limited)).body), new RegExp(buildId));
    assert.equal((await ask(`/v1alpha1/builds/${buildId}`, limited, 'DELETE')).status, 200);
  });

  test('another server that trusts the platform holds to the limits', async () => {
    await using other = await startSluice({
      config: {
        platform: { url: `${sluice.url}/platform` },
        access: { requests: 'login', builds: 'login' },
        registries: {
          [registry.host]: { plainHttp: true },
          [sluice.host]: { plainHttp: true },
        },
      },
    });
    const token = await tokenWith({ scopes: ['pull'] });
    const refused = await post('/v1alpha2/container', token, asked(), other);
    assert.equal(refused.status, 403, String(refused.body));
    assert.match(String(refused.body), /scope 'request'/);
    for (const limits of [{}, { scopes: ['request'] }]) {
      const reply = await post('/v1alpha2/container', await tokenWith(limits), asked(), other);
      assert.equal(reply.status, 200, String(reply.body));
    }
    const limited = await tokenWith({ repositories: ['quay.io/team/*'] });
    const outside = await post('/v1alpha2/container', limited, asked(), other);
    assert.equal(outside.status, 403, String(outside.body));
  });
});
