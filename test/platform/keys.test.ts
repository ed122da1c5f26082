/** Keys of what callers share: equal only for equal rights, and they reveal no secret. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rolesOf } from '../../src/hosted/accounts/accounts.ts';
import { administratorRoles } from '../../src/hosted/accounts/administrator-roles.ts';
import {
  contextRepository,
  isAnonymousContext,
} from '../../src/hosted/uploads/context-repository.ts';
import type { Endpoint } from '../../src/platform/endpoint.ts';
import { grantKey, tokenKey } from '../../src/platform/grants/grant-key.ts';
import { homeOf, homeRights } from '../../src/platform/identities.ts';
import { basicHeader, credentialKey, firstOf } from '../../src/upstream/credentials.ts';

const endpoint = (id: string) => ({ id, base: id, host: id, isOwn: false }) satisfies Endpoint;

function assertDistinct(keys: readonly string[], ...secrets: string[]) {
  assert.equal(new Set(keys).size, keys.length);
  for (const key of keys) for (const secret of secrets) assert.ok(!key.includes(secret));
}

test('credentials have one key if they are the same in every part', () => {
  const ada = { kind: 'password', username: 'ada', password: 'secret' } as const;
  assert.equal(credentialKey({ ...ada }), credentialKey(ada));
  const keys = [
    credentialKey(undefined),
    credentialKey(ada),
    credentialKey({ ...ada, username: 'adas', password: 'ecret' }),
    credentialKey({ ...ada, password: 'other' }),
    credentialKey({ kind: 'identity-token', token: 'secret' }),
    credentialKey({ kind: 'identity-token', token: 'other' }),
    credentialKey({ ...ada, username: 'identity' }),
  ];
  assertDistinct(keys, 'secret', 'ada');
  assert.equal(keys[0], 'anonymous');
});

test('the first source that has credentials counts, for the repository that was asked for', async () => {
  const named = (username: string) => ({ kind: 'password', username, password: 'x' }) as const;
  const asked: unknown[] = [];
  const source = firstOf(
    async (...request) => void asked.push(request),
    async registry => (registry === 'a' ? named('second') : undefined),
    async () => named('third'),
  );
  assert.deepEqual(await source('a', 'team/app'), named('second'));
  assert.deepEqual(await source('b', 'team/app'), named('third'));
  assert.deepEqual(asked[0], ['a', 'team/app']);
  assert.equal(await firstOf(async () => undefined)('a'), undefined);
  assert.equal(basicHeader('Aladdin', 'open sesame'), 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==');
});

test('a grant has its own key on each platform, with its refresh token', () => {
  const [one, other] = [endpoint('https://one'), endpoint('https://other')];
  const grant = { endpoint: 'x', accessToken: 'access', refreshToken: 'refresh' };
  const { refreshToken: _, ...spent } = grant;
  assertDistinct(
    [
      grantKey(one, grant),
      grantKey(other, grant),
      grantKey(one, spent),
      grantKey(one, { ...grant, refreshToken: 'stolen' }),
      grantKey(one, { ...grant, accessToken: 'another' }),
      tokenKey(one, 'access'),
      tokenKey(other, 'access'),
      tokenKey(one, 'another'),
    ],
    ...['access', 'refresh'],
  );
  assert.match(grantKey(one, grant), /^[\w-]{43}$/);
  assert.equal(grantKey(one, { ...grant, endpoint: 'y' }), grantKey(one, grant));
});

test('build contexts are in a repository of their user, or of the network without a login', () => {
  const names = [
    contextRepository({ user: 'ada' }),
    contextRepository({ user: 'bob', network: '192.0.2.1' }),
    contextRepository({ network: '192.0.2.1' }),
    contextRepository({ network: '192.0.2.2' }),
    contextRepository({ user: '192.0.2.1' }),
    contextRepository({}),
  ];
  assertDistinct(names, 'ada', '192');
  const anonymous = [2, 3, 5];
  for (const [index, name] of names.entries()) {
    const place = anonymous.includes(index) ? 'networks' : 'users';
    assert.match(name, new RegExp(`^contexts/${place}/[0-9a-f]{32}$`));
    assert.equal(isAnonymousContext(name), place === 'networks');
  }
  assert.equal(contextRepository({ user: 'bob' }), names[1]);
  assert.ok(!isAnonymousContext('contexts/networksx/a'));
});

test('the home of a user differs by platform, number and name, and is a path of a repository', () => {
  const ada = { user: 'https://one 7', name: 'Ada.Lovelace@lab.example.org' };
  const homes = [
    homeOf(ada),
    homeOf({ ...ada, user: 'https://one 8' }),
    homeOf({ ...ada, name: 'Ada.Lovelace@example.org' }),
    homeOf({ ...ada, name: 'ada.lovelace@lab.example.org' }),
  ];
  assertDistinct(homes);
  assert.match(homes[0] ?? '', /^users\/ada-lovelace-[0-9a-f]{16}$/);
  for (const [name, path] of [
    ['--x__y--', 'x-y'],
    ['@example.org', 'user'],
    ['éé', 'user'],
    ['', 'user'],
    ['a'.repeat(50), 'a'.repeat(40)],
    [`${'a'.repeat(39)}.b`, 'a'.repeat(39)],
    ['A1', 'a1'],
    ['a@b@c', 'a'],
  ] as const) {
    assert.match(homeOf({ user: 'x', name }), new RegExp(`^users/${path}-[0-9a-f]{16}$`), name);
  }
});

test('users pull and delete below their home, with a token that may build; they never push', () => {
  const home = 'sluice.example.com/users/ada-1';
  assert.deepEqual(homeRights({ home }, `${home}/app`), ['pull', 'delete']);
  const scopes = { build: ['pull', 'delete'], pull: ['pull'], request: ['pull'] } as const;
  for (const [scope, actions] of Object.entries(scopes)) {
    const rights = { scopes: [scope as keyof typeof scopes] };
    assert.deepEqual(homeRights({ home, rights }, `${home}/deep/app`), actions);
  }
  for (const name of [home, `${home}x/app`, `x/${home}/app`, 'sluice.example.com/team/app']) {
    assert.deepEqual(homeRights({ home }, name), [], name);
  }
  assert.deepEqual(homeRights({}, `${home}/app`), []);
});

test('an account has the roles that it lists; without any list, all of them', () => {
  const password = 'x';
  assert.deepEqual(rolesOf({ password }), administratorRoles);
  assert.deepEqual(rolesOf({ password, roles: ['audit'] }), ['audit']);
  assert.deepEqual(rolesOf({ password, repositories: {} }), []);
  assert.deepEqual(rolesOf({ password, repositories: {}, roles: ['site'] }), ['site']);
  const all = ['site', 'tokens', 'credentials', 'audit', 'registries'];
  assert.deepEqual(administratorRoles, all);
});
