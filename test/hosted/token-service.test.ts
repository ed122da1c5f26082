import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertRegistryFault, call, type Reply } from '../faults/http-client.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { basic, expect, Repository } from './push-client.ts';

let sluice: Sluice;
const ci = basic('ci', 'word');

before(async () => {
  sluice = await startSluice({
    config: {
      accounts: {
        admin: 'secret',
        ci: { password: 'word', repositories: { 'team/*': 'push' } },
      },
    },
  });
  for (const name of ['team/app', 'public/app']) {
    await new Repository(sluice, name).pushImage('1', [Buffer.from(name)]);
  }
});
after(() => sluice?.stop());

const get = (scopes: readonly string[], headers = {}): Promise<Reply> => {
  const url = new URL('/v2/token', sluice.url);
  url.searchParams.set('service', sluice.host);
  for (const scope of scopes) url.searchParams.append('scope', scope);
  return call(url.href, { headers });
};

const post = (form: Record<string, string>): Promise<Reply> =>
  call(`${sluice.url}/v2/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(form).toString(),
  });

interface Granted {
  readonly token: string;
  readonly access_token: string;
  readonly expires_in: number;
  readonly issued_at: string;
}

function grantedIn(reply: Reply): {
  response: Granted;
  access: unknown;
  headers: Record<string, string>;
} {
  const response = JSON.parse(expect(reply, 200).body.toString()) as Granted;
  const [, claims = ''] = response.token.split('.');
  const { access } = JSON.parse(Buffer.from(claims, 'base64url').toString());
  return { response, access, headers: { authorization: `Bearer ${response.token}` } };
}

test('a token contains those requested rights that its owner has', async () => {
  for (const [scopes, headers, access] of [
    [['repository:team/app:pull,push'], ci, { 'team/app': ['pull', 'push'] }],
    [['repository:team/app:pull'], ci, { 'team/app': ['pull'] }],
    [['repository:team/app:delete,pull'], ci, { 'team/app': ['pull'] }],
    [['repository:team/app:*'], ci, { 'team/app': ['pull', 'push'] }],
    [['repository:secret/app:pull,push'], ci, {}],
    [
      ['repository:team/app:pull', 'repository:public/app:pull'],
      ci,
      { 'team/app': ['pull'], 'public/app': ['pull'] },
    ],
    [['repository:team/app:pull repository:public/app:pull'], {}, { 'public/app': ['pull'] }],
    [['repository(plugin):public/app:pull'], {}, { 'public/app': ['pull'] }],
    [['registry:catalog:*', 'nonsense', ''], ci, { catalog: ['*'] }],
    [['registry:catalog:pull', 'registry:other:*', 'nonsense', ''], ci, {}],
    [[], ci, {}],
    [['repository:ct/abc/library/alpine:pull,push'], {}, { 'ct/abc/library/alpine': ['pull'] }],
  ] as const) {
    const granted = grantedIn(await get(scopes, headers));
    const expected = Object.entries(access).map(([name, actions]) => ({
      type: name === 'catalog' ? 'registry' : 'repository',
      name,
      actions,
    }));
    assert.deepEqual(granted.access, expected, scopes.join());
  }
});

test('the answer has both names of the token, its lifetime and its time', async () => {
  const reply = await get(['repository:team/app:pull'], ci);
  const { response } = grantedIn(reply);
  assert.equal(response.access_token, response.token);
  assert.equal(response.expires_in, 300);
  assert.ok(Math.abs(Date.parse(response.issued_at) - Date.now()) < 60_000);
  assert.equal(reply.headers['content-type'], 'application/json');
});

test('a token that is exchanged keeps its account, its rights and its end', async () => {
  const first = grantedIn(await get(['repository:team/app:pull'], ci)).response.token;
  const scopes = [
    'repository:team/app:pull,push',
    'repository:team/other:pull',
    'registry:catalog:*',
  ];
  const claimsOf = (token: string) =>
    JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  const { exp, sub } = claimsOf(first);
  const { response, access } = grantedIn(await get(scopes, basic('token', first)));
  assert.deepEqual(access, [{ type: 'repository', name: 'team/app', actions: ['pull'] }]);
  const second = claimsOf(response.token);
  assert.deepEqual([second.sub, sub], ['ci', 'ci']);
  assert.ok(second.exp <= exp, `${second.exp} is later than ${exp}`);
  assert.ok(response.expires_in <= 300 && response.expires_in > 0, String(response.expires_in));
});

test('the token gives access to its repository', async () => {
  const { headers } = grantedIn(await get(['repository:team/app:pull,push'], ci));
  const repository = new Repository(sluice, 'team/app', headers);
  expect(await repository.get('manifests/1'), 200);
  await repository.pushImage('2', [Buffer.from('another layer')]);
  const other = await new Repository(sluice, 'team/other', headers).get('tags/list');
  assert.equal(other.status, 401);
  assert.match(String(other.headers['www-authenticate']), /error="insufficient_scope"/);
  assert.equal((await call(`${sluice.url}/v2/`, { headers })).status, 200);
});

test('containerd requests a token with a form', async () => {
  const scope = 'repository:team/app:pull';
  const form = { grant_type: 'password', username: 'ci', password: 'word', scope };
  assert.deepEqual(grantedIn(await post(form)).access, [
    { type: 'repository', name: 'team/app', actions: ['pull'] },
  ]);
  assertRegistryFault(await post({ ...form, password: 'wrong' }), {
    status: 401,
    code: 'UNAUTHORIZED',
    message: /name or the password is wrong/,
  });
  assertRegistryFault(await post({ ...form, grant_type: 'refresh_token' }), {
    status: 401,
    code: 'UNAUTHORIZED',
    message: /log in again/,
  });
  assertRegistryFault(await post({ ...form, grant_type: 'client_credentials' }), {
    status: 400,
    code: 'UNSUPPORTED',
    message: /client_credentials/,
  });
});

test('wrong credentials fail a login, but not the pull of a served name', async () => {
  const wrong = basic('ci', 'outdated');
  const refused = { status: 401, code: 'UNAUTHORIZED', message: /log in again/ };
  assertRegistryFault(await get([], wrong), refused);
  assertRegistryFault(await get(['repository:public/app:pull'], wrong), refused);
  const mixed = ['repository:ct/abc/app:pull', 'repository:team/app:pull'];
  assertRegistryFault(await get(mixed, wrong), refused);
  const { access } = grantedIn(await get(['repository:ct/abc/app:pull'], wrong));
  assert.deepEqual(access, [{ type: 'repository', name: 'ct/abc/app', actions: ['pull'] }]);
});

test('other methods and endless forms are refused', async () => {
  assert.equal((await call(`${sluice.url}/v2/token`, { method: 'PUT' })).status, 405);
  const reply = await post({ grant_type: 'password', username: 'x'.repeat(100_000) });
  assert.equal(reply.status, 413);
});

test('passwords and tokens are not in the log', async () => {
  const { response } = grantedIn(await get(['repository:team/app:pull'], ci));
  await post({ grant_type: 'password', username: 'ci', password: 'word-in-a-form' });
  await sluice.requests();
  const log = sluice.output();
  for (const secret of [response.token, 'word-in-a-form', ci.authorization]) {
    assert.ok(!log.includes(secret));
  }
});
