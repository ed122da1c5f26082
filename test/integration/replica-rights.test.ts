/** Rights in parts at replicas: limits of tokens and roles of administrators, whichever server a caller asks. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { call, type Reply } from '../faults/http-client.ts';
import { basic, jsonOf } from '../http/platform/platform-server.ts';
import { pair, pairingUrl } from '../platform/pairing-peer.ts';
import { eventually } from '../world/eventually.ts';
import { type ObjectStore, startObjectStore } from '../world/object-store.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type Replicas, startReplicas } from '../world/replicas.ts';
import type { Sluice } from '../world/sluice.ts';

const pairingToken = 'a long pairing token';
const endpoint = 'https://platform.example.com/api';
const administrator = basic('admin', 'secret');
const ofRole = (role: string) => basic(role, 'word');
const everything = { scopes: ['pull', 'request', 'build', 'manage'] };

suite('rights at replicas', () => {
  let postgres: Postgres;
  let store: ObjectStore;
  let registry: Registry;
  let replicas: Replicas;
  let image: string;

  before(async () => {
    [postgres, store, registry] = await Promise.all([
      startPostgres(),
      startObjectStore(),
      startRegistry(),
    ]);
    image = (await pushCorpus(registry, ['busybox:oci'])).get('busybox:oci')?.reference ?? '';
    const roles = ['site', 'tokens', 'credentials', 'audit'];
    replicas = await startReplicas({
      ...{ postgres, store, count: 2 },
      config: {
        accounts: {
          admin: 'secret',
          ...Object.fromEntries(roles.map(role => [role, { password: 'word', roles: [role] }])),
        },
        access: { requests: 'login', builds: 'login', pulls: 'login' },
        buildkit: 'off',
        platform: { pairingToken, allow: ['platform.example.com', 'built-in'] },
        registries: { [registry.host]: { plainHttp: true } },
      },
    });
    await send(replicas.servers[0] as Sluice, 'POST', '/platform/users', administrator, {
      email: 'ada@example.org',
    });
  });
  after(async () => {
    await replicas?.[Symbol.asyncDispose]();
    await registry?.stop();
    await store?.[Symbol.asyncDispose]();
    await postgres?.[Symbol.asyncDispose]();
  });

  const send = (at: Sluice, method: string, path: string, authorization: string, body?: object) =>
    call(at.url + path, {
      method,
      headers: { authorization, 'content-type': 'application/json', accept: 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  const tokenWith = (at: Sluice, limits: object, who = administrator) =>
    send(at, 'POST', '/platform/tokens', who, {
      ...{ user: 'ada@example.org', name: `${Math.random()}`, ...limits },
    });
  const request = (at: Sluice, token: string, more: object = { containerImage: image }) =>
    send(at, 'POST', '/v1alpha2/container', `Bearer ${token}`, more);
  const refuses = (reply: Reply, why: RegExp, about: string) => {
    assert.equal(reply.status, 403, `${about}: ${reply.status} ${reply.body}`);
    assert.match(String(reply.body), why, about);
  };
  /** Each server, with the other one. */
  const pairs = (): readonly (readonly [Sluice, Sluice])[] => {
    const [one, other] = replicas.servers;
    assert.ok(one && other);
    return [
      [one, other],
      [other, one],
    ];
  };

  test('an access token has its limits at each of them', async () => {
    const dockerfile = Buffer.from('FROM scratch\nCOPY a /a\n').toString('base64');
    for (const [at, other] of pairs()) {
      const made = async (limits: object): Promise<string> => {
        const reply = await tokenWith(at, limits);
        assert.equal(reply.status, 200, String(reply.body));
        return jsonOf(reply).accessKey;
      };
      const whole = await made(everything);
      const pull = await made({ scopes: ['pull'] });
      const asking = await made({ scopes: ['request'] });
      const elsewhere = await made({ repositories: ['quay.io/team/*'] });
      const response = await request(other, whole);
      assert.equal(response.status, 200, String(response.body));
      const name = jsonOf(response).targetImage;
      const served = (token: string, path: string) =>
        call(other.at(name, path), { headers: { authorization: basic('token', token) } });
      assert.equal((await served(pull, 'manifests/oci')).status, 200);
      assert.equal((await request(other, asking)).status, 200);
      refuses(await request(other, pull), /scope 'request'/, 'a request');
      refuses(
        await request(other, asking, { containerFile: dockerfile }),
        /scope 'build'/,
        'build',
      );
      refuses(await request(other, elsewhere), /limited to certain repositories/, 'a repository');
      refuses(await served(asking, 'manifests/oci'), /scope 'pull'/, 'a manifest');
      assert.equal((await served(elsewhere, 'manifests/oci')).status, 403);
      const { layers } = jsonOf(await served(pull, 'manifests/oci'));
      const blob = `blobs/${layers[0].digest}`;
      assert.ok([200, 307].includes((await served(pull, blob)).status));
      refuses(await served(asking, blob), /scope 'pull'/, 'a blob');
      for (const path of ['/platform/tokens', '/platform/credentials']) {
        refuses(await send(other, 'GET', path, `Bearer ${asking}`), /scope 'manage'/, path);
        assert.equal((await send(other, 'GET', path, `Bearer ${whole}`)).status, 200);
      }
    }
  });

  test('an access token ends at each of them, by its time and by a person', async () => {
    const ends = async ([at, other]: readonly [Sluice, Sluice]) => {
      const expiration = new Date(Date.now() + 6000).toISOString();
      const brief = jsonOf(await tokenWith(at, { expiration })).accessKey;
      const { accessKey, token } = jsonOf(await tokenWith(at, {}));
      assert.equal((await request(other, brief)).status, 200);
      assert.equal((await request(other, accessKey)).status, 200);
      const path = `/platform/tokens/${token.id}`;
      assert.equal((await send(at, 'DELETE', path, administrator)).status, 204);
      for (const [what, ended] of [
        ['a revoked token', accessKey],
        ['an expired token', brief],
      ] as const) {
        await eventually(`${what} ends`, async () => (await request(other, ended)).status === 403);
        const again = await send(other, 'GET', '/platform/user-info', `Bearer ${ended}`);
        assert.equal(again.status, 403, what);
      }
    };
    await Promise.all(pairs().map(ends));
  });

  test('a session of pages has the limits of its token at each of them', async () => {
    for (const [at, other] of pairs()) {
      const { accessKey: token } = jsonOf(await tokenWith(at, { scopes: ['request'] }));
      const form = (to: Sluice, path: string, body: object, cookie?: string) =>
        call(to.url + path, {
          method: 'POST',
          headers: {
            'content-type': 'application/x-www-form-urlencoded',
            ...{ accept: 'text/html', 'sec-fetch-site': 'same-origin' },
            ...(cookie === undefined ? {} : { cookie }),
          },
          body: new URLSearchParams({ ...body }).toString(),
        });
      const login = await form(at, '/view/login', { token });
      assert.equal(login.status, 303, String(login.body));
      const cookie = String(login.headers['set-cookie']).split(';')[0] ?? '';
      const submission = { name: 'wider', scope: 'manage' };
      const refused = await form(other, '/view/account/tokens', submission, cookie);
      refuses(refused, /scope (?:'|&#39;)manage/, 'a token by a form');
    }
  });

  test('an administrator has only its roles at each of them', async () => {
    const routes: readonly (readonly [string, string, string, object?])[] = [
      ['site', 'POST', '/platform/users', { email: 'not an address' }],
      ['site', 'GET', '/metrics/hosts'],
      ['site', 'DELETE', '/container-token/absent'],
      ['tokens', 'GET', '/platform/tokens'],
      ['credentials', 'GET', '/platform/credentials'],
      ['audit', 'GET', '/platform/audit'],
    ];
    for (const [at] of pairs()) {
      for (const [role, method, path, body] of routes) {
        for (const own of ['site', 'tokens', 'credentials', 'audit']) {
          const reply = await send(at, method, path, ofRole(own), body);
          if (own !== role) refuses(reply, new RegExp(`role '${role}'`), `${own} ${path}`);
          else assert.ok(![401, 403].includes(reply.status), `${path}: ${reply.body}`);
        }
      }
      const who = ofRole('tokens');
      refuses(await tokenWith(at, { scopes: ['manage'] }, who), /role 'credentials'/, 'a token');
      const made = jsonOf(await tokenWith(at, { scopes: ['pull'] }, who));
      assert.equal(made.token.createdBy, 'account tokens');
    }
  });

  test('what a paired platform limits is limited at each of them', async () => {
    for (const [at, other] of pairs()) {
      const rights: Readonly<Record<string, object>> = {
        [`whole-${at.port}`]: {},
        [`pull-${at.port}`]: { tokenRights: { scopes: ['pull'] } },
        [`unknown-${at.port}`]: { tokenRights: { scopes: ['all'] } },
        [`team-${at.port}`]: { tokenRights: { ...everything, repositories: ['quay.io/team/*'] } },
      };
      const respond = (body: object) => ({
        ...{ status: 200, body: JSON.stringify(body) },
        headers: { 'Content-Type': ['application/json'] },
      });
      const peer = await pair(
        pairingUrl(`ws://${at.host}`, pairingToken, endpoint),
        ({ uri, auth }) => {
          const limits = rights[String(auth).replace('Bearer ', '')];
          if (!limits) return { status: 403, body: '', headers: {} };
          if (!String(uri).endsWith('/user-info')) return respond({ credentials: [] });
          return respond({ user: { id: 7, userName: 'ada', email: 'ada@example.org' }, ...limits });
        },
      );
      const asked = (kind: string) =>
        send(other, 'POST', '/v1alpha2/container', '', {
          containerImage: image,
          towerEndpoint: endpoint,
          towerAccessToken: `${kind}-${at.port}`,
        });
      const whole = await asked('whole');
      assert.equal(whole.status, 200, String(whole.body));
      refuses(await asked('pull'), /scope 'request'/, 'a token to pull');
      refuses(await asked('unknown'), /scope 'request'/, 'a scope that is not known here');
      refuses(await asked('team'), /limited to certain repositories/, 'a token for repositories');
      peer.socket.terminate();
    }
  });
});
