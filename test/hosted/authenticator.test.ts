/** Which rights a login gives in the hosted repositories. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import type { Account } from '../../src/hosted/accounts/accounts.ts';
import {
  allowsPull,
  createAuthenticator,
  createRegistryTokens,
  type RepositoryAccess,
} from '../../src/hosted/authenticator.ts';
import { contextRepository } from '../../src/hosted/uploads/context-repository.ts';

const host = 'images.example.com';
const minute = 60_000;
const tokens = createRegistryTokens(Buffer.alloc(32, 7), host);
const context = contextRepository({ user: 'ada' });

function authenticatorOf(list: Record<string, Account>, hasAccountFiles = false) {
  const accounts = new Map(Object.entries(list));
  const accountCheck = createAccountCheck(accounts);
  const anonymous = ['public/*'];
  return createAuthenticator({ accounts, accountCheck, hasAccountFiles, anonymous, tokens });
}

const ada: Account = { password: 'secret', repositories: { 'team/*': 'push' } };
const full = ['pull', 'push', 'delete'];

test('without a login, public repositories can be pulled, and nothing else', async () => {
  const authenticator = authenticatorOf({ ada });
  const rights = [authenticator.anybody, await authenticator.withCredentials(undefined)];
  rights.push(await authenticator.withCredentials({ kind: 'identity-token', token: 'x' }));
  for (const one of rights) {
    assert.deepEqual(one?.('public/app'), ['pull']);
    assert.deepEqual(one?.('team/app'), []);
  }
});

test('build contexts are no part of what everybody may pull', () => {
  const everything = createAuthenticator({
    ...{ accounts: new Map(), accountCheck: createAccountCheck(new Map()) },
    ...{ hasAccountFiles: false, anonymous: ['*'], tokens },
  });
  assert.deepEqual(everything.anybody('team/app'), ['pull']);
  assert.deepEqual(everything.anybody(context), []);
});

test('a name and its password give the rights of the account and of everybody', async () => {
  const authenticator = authenticatorOf({ ada, root: { password: 'other' } });
  const login = (username: string, password: string) =>
    authenticator.withCredentials({ kind: 'password', username, password });
  const rights = await login('ada', 'secret');
  assert.deepEqual(rights?.('team/app'), ['pull', 'push']);
  assert.deepEqual(rights?.('public/app'), ['pull']);
  assert.deepEqual(rights?.('other/app'), []);
  assert.deepEqual((await login('root', 'other'))?.('any/thing'), full);
  for (const [name, password] of [
    ['ada', 'other'],
    ['nobody', 'secret'],
    ['', ''],
  ] as const) {
    assert.equal(await login(name, password), undefined);
  }
});

test('the caller is told before a password is hashed', async () => {
  const hash = '$2b$04$abcdefghijklmnopqrstuuN3pQ3sJ9fV0kqkR0y8d4bC7w1yQ2e6K';
  const authenticator = authenticatorOf({ ada: { ...ada, password: hash } });
  const stop = new Error('too many hashes');
  const beforeHash = () => {
    throw stop;
  };
  await assert.rejects(authenticator.withPassword('ada', 'secret', beforeHash), stop);
});

test('a token gives what it lists, within the current rights of its account', async () => {
  const entry = (name: string, ...actions: RepositoryAccess['actions'][number][]) =>
    ({ type: 'repository', name, actions }) as const;
  const access = [
    entry('team/app', 'pull'),
    entry('team/app', 'push', 'delete'),
    entry('x', 'pull'),
  ];
  const ofNobody = await tokens.issue({ access }, minute);
  const ofAda = await tokens.issue({ account: 'ada', access }, minute);
  const authenticator = authenticatorOf({ ada });
  assert.deepEqual((await authenticator.withToken(ofNobody))?.('team/app'), full);
  assert.deepEqual((await authenticator.withToken(ofAda))?.('team/app'), ['pull', 'push']);
  for (const text of [ofNobody, ofAda]) {
    assert.deepEqual((await authenticator.withToken(text))?.('team/other'), []);
    assert.deepEqual(
      (await authenticator.withToken(text))?.('public/app'),
      [],
      'it does not list it',
    );
  }
  assert.deepEqual((await authenticator.withToken(ofAda))?.('x'), []);
  assert.equal(await authenticatorOf({}).withToken(ofAda), undefined, 'the account is gone');
  assert.equal(await authenticator.withToken('nonsense'), undefined);
  const asPassword = { kind: 'password', username: 'token', password: ofAda } as const;
  assert.deepEqual((await authenticator.withCredentials(asPassword))?.('team/app'), [
    'pull',
    'push',
  ]);
});

test('a token that may list gives the rights of its holder to lists, and others none', async () => {
  const authenticator = authenticatorOf({ ada });
  const listing = (account?: string) =>
    tokens.issue({ account, access: [], mayList: true }, minute);
  assert.deepEqual((await authenticator.toList(await listing('ada')))?.('team/app'), [
    'pull',
    'push',
  ]);
  const anybody = await authenticator.toList(await listing());
  assert.deepEqual([anybody?.('public/app'), anybody?.('team/app')], [['pull'], []]);
  assert.equal(await authenticator.toList(await listing('removed')), undefined);
  for (const text of [
    await tokens.issue({ account: 'ada', access: [] }, minute),
    await tokens.issue({ access: [{ type: 'repository', name: 'a', actions: ['pull'] }] }, minute),
    'nonsense',
  ]) {
    assert.equal(await authenticator.toList(text), undefined);
  }
});

test('the right to lists is none to a repository', async () => {
  const text = await tokens.issue({ access: [], mayList: true }, minute);
  assert.deepEqual(await tokens.read(text).then(token => token?.access), []);
  assert.deepEqual((await authenticatorOf({}).withToken(text))?.('catalog'), []);
  assert.equal((await tokens.read(text))?.mayList, true);
  const other = await tokens.read(await tokens.issue({ access: [] }, minute));
  assert.ok(other && !('mayList' in other));
});

test('accounts exist, or may exist later', () => {
  assert.equal(authenticatorOf({}).hasAccounts, false);
  assert.equal(authenticatorOf({ ada }).hasAccounts, true);
  assert.equal(authenticatorOf({}, true).hasAccounts, true);
  assert.ok(authenticatorOf({ ada }).knows('ada'));
  assert.ok(!authenticatorOf({ ada }).knows('bob'));
});

test('a token pulls the repositories that it lists for that', () => {
  const access = [
    { type: 'repository', name: 'a', actions: ['push'] },
    { type: 'repository', name: 'b', actions: ['push', 'pull'] },
  ] as const;
  assert.ok(!allowsPull({ access }, 'a'));
  assert.ok(allowsPull({ access }, 'b'));
  assert.ok(!allowsPull({ access }, 'c'));
  assert.ok(!allowsPull({ access: [] }, 'a'));
});

test('a token names the user that it was issued for, which gives no rights', async () => {
  const token = await tokens.read(await tokens.issue({ user: 'ada@x', access: [] }, minute));
  assert.deepEqual([token?.user, token?.account], ['ada@x', undefined]);
  const plain = await tokens.read(await tokens.issue({ access: [] }, minute));
  assert.ok(plain && !('user' in plain) && !('account' in plain));
});
