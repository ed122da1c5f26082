/** Who is admitted to repositories and served names, and what the others are challenged with. No server. */
import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import type { Account } from '../../src/hosted/accounts/accounts.ts';
import {
  createAuthenticator,
  createRegistryTokens,
  type RegistryToken,
} from '../../src/hosted/authenticator.ts';
import {
  createRegistryAuth,
  listRights,
  mayNotDelete,
  pullRights,
} from '../../src/http/registry/login/registry-auth.ts';
import type { LogIn } from '../../src/http/registry/login/token-route.ts';
import { stateOf } from '../../src/http/request-state.ts';
import type { Caller } from '../../src/request/index.ts';
import { basic } from '../hosted/push-client.ts';

const host = 'images.example.com';
const realm = `https://${host}/token`;
const minute = 60_000;
const tokens = createRegistryTokens(Buffer.alloc(32, 7), host);
const ada: Account = { password: 'word', repositories: { 'team/*': 'push' } };

function authOf(
  pulls: 'open' | 'login' | 'off' = 'login',
  list: Record<string, Account> = { ada },
) {
  const accounts = new Map(Object.entries(list));
  const authenticator = createAuthenticator({
    ...{ accounts, accountCheck: createAccountCheck(accounts), hasAccountFiles: false },
    ...{ anonymous: ['public/*'], tokens },
  });
  const logIn: LogIn = async (_request, { name, password }) => {
    const rights = await authenticator.withPassword(name, password);
    return rights && { rights, mayPull: async served => !served.includes('closed') };
  };
  const auth = createRegistryAuth({ authenticator, tokens, realm, logIn, pulls });
  return { auth, authenticator };
}

function requestOf(headers: Readonly<Record<string, string>> = {}): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  Object.assign(request.headers, headers);
  return request;
}

const bearer = (text: string) => ({ authorization: `Bearer ${text}` });
const issue = (token: Partial<RegistryToken>) => tokens.issue({ access: [], ...token }, minute);
const access = (name: string, ...actions: RegistryToken['access'][number]['actions']) =>
  ({ type: 'repository', name, actions }) as const;

/** Checks that a call is challenged, with these parameters behind those of the token service. */
async function assertChallenged(call: Promise<unknown>, details: Record<string, string> = {}) {
  await assert.rejects(call, error => {
    assert.ok(error instanceof Fault);
    assert.deepEqual([error.kind, error.phase], ['unauthorized', 'credentials']);
    const wanted = Object.entries({ realm, service: host, ...details });
    assert.equal(
      error.headers['www-authenticate'],
      `Bearer ${wanted.map(([name, value]) => `${name}="${value}"`).join(',')}`,
    );
    return true;
  });
}

test('a caller without a login has the rights of everybody, and is challenged for others', async () => {
  const { auth } = authOf();
  assert.deepEqual((await auth.admit(requestOf(), 'public/app', 'pull'))('public/app'), ['pull']);
  for (const [name, action, scope] of [
    ['team/app', 'pull', 'repository:team/app:pull'],
    ['public/app', 'push', 'repository:public/app:pull,push'],
    ['public/app', 'delete', 'repository:public/app:delete'],
  ] as const) {
    await assertChallenged(auth.admit(requestOf(), name, action), { scope });
  }
  await assertChallenged(auth.admit(requestOf(), 'team/app', 'push', 'team/base'), {
    scope: 'repository:team/app:pull,push repository:team/base:pull',
  });
});

test('an account has its rights, and is told where they end', async () => {
  const { auth } = authOf();
  const admit = (password: string, name: string, action: 'pull' | 'push' | 'delete') =>
    auth.admit(requestOf(basic('ada', password)), name, action);
  assert.ok((await admit('word', 'team/app', 'push'))('team/app').includes('push'));
  for (const [name, action] of [
    ['team/app', 'delete'],
    ['other/app', 'pull'],
  ] as const) {
    await assert.rejects(admit('word', name, action), { kind: 'denied', phase: 'credentials' });
  }
  const scope = 'repository:public/app:pull';
  await assertChallenged(admit('wrong', 'public/app', 'pull'), { scope });
});

test('a token has the rights that it names, and no others', async () => {
  const { auth } = authOf();
  const text = await issue({ access: [access('team/app', 'pull')] });
  const admit = (given: string, action: 'pull' | 'push') =>
    auth.admit(requestOf(bearer(given)), 'team/app', action);
  assert.deepEqual((await admit(text, 'pull'))('team/app'), ['pull']);
  const scope = 'repository:team/app:pull,push';
  await assertChallenged(admit(text, 'push'), { scope, error: 'insufficient_scope' });
  await assertChallenged(admit(`${text}x`, 'push'), { scope, error: 'invalid_token' });
});

test('the sender of a token is noted for the logs', async () => {
  const { auth } = authOf();
  const list = [access('team/app', 'pull')];
  for (const [token, who, hasServerToken] of [
    [{ account: 'ada' }, { account: 'ada', user: undefined }, undefined],
    [{ user: 'eve@example.com' }, { account: undefined, user: 'eve@example.com' }, undefined],
    [{}, undefined, true],
  ] as const) {
    const request = requestOf(bearer(await issue({ ...token, access: list })));
    await auth.admit(request, 'team/app', 'pull');
    assert.deepEqual(stateOf(request).who, who);
    assert.equal(stateOf(request).hasServerToken, hasServerToken);
  }
  const invalid = requestOf(bearer('invalid'));
  await assert.rejects(auth.admit(invalid, 'team/app', 'pull'));
  assert.deepEqual(stateOf(invalid), {});
});

test('repositories are listed with a login, or a token for that', async () => {
  const { auth } = authOf();
  const scope = 'registry:catalog:*';
  const list = (headers: Readonly<Record<string, string>> = {}) =>
    auth.admitList(requestOf(headers));
  assert.ok((await list(basic('ada', 'word')))('team/app').includes('push'));
  const mayList = await issue({ account: 'ada', mayList: true });
  assert.ok((await list(bearer(mayList)))('team/app').includes('push'));
  await assertChallenged(list(), { scope });
  await assertChallenged(list(basic('ada', 'wrong')), { scope });
  const other = await issue({ account: 'ada', access: [access('team/app', 'pull')] });
  await assertChallenged(list(bearer(other)), { scope, error: 'insufficient_scope' });
  await assertChallenged(list(bearer('invalid')), { scope, error: 'invalid_token' });
  const open = await authOf('login', {}).auth.admitList(requestOf());
  assert.deepEqual([open('public/app'), open('team/app')], [['pull'], []]);
});

const served = 'ct/one/library/app';

test('served names are open to everybody, or to nobody', async () => {
  for (const headers of [{}, bearer('invalid'), basic('ada', 'wrong')]) {
    await authOf('open').auth.admitPull(requestOf(headers), served);
    await assert.rejects(authOf('off').auth.admitPull(requestOf(headers), served), {
      ...{ kind: 'denied', phase: 'request', message: new RegExp(`^Cannot pull ${served}: `) },
    });
  }
});

test('where pulls require a login, served names are open to a login and to a token for the name', async () => {
  const { auth } = authOf();
  const pull = (headers: Readonly<Record<string, string>> = {}, name = served) =>
    auth.admitPull(requestOf(headers), name);
  const details = (name = served) => ({ scope: `repository:${name}:pull` });
  await pull(basic('ada', 'word'));
  await assert.rejects(pull(basic('ada', 'word'), 'ct/closed/app'), {
    ...{ kind: 'denied', message: /limited to certain repositories/ },
  });
  await assertChallenged(pull(), details());
  await assertChallenged(pull(basic('ada', 'wrong')), details());
  await assert.rejects(pull(basic('ada', 'wrong')), /^Fault: The name or the password is wrong/);
  await assertChallenged(pull(basic('token', 'invalid')), details());
  await assertChallenged(pull(bearer('invalid')), { ...details(), error: 'invalid_token' });
  const insufficient = { ...details(), error: 'insufficient_scope' };
  for (const holder of [{}, { account: 'ada' }]) {
    const text = await issue({ ...holder, access: [access(served, 'pull')] });
    await pull(bearer(text));
    await pull(basic('token', text));
    const elsewhere = await issue({ ...holder, access: [access('ct/two/app', 'pull')] });
    await assertChallenged(pull(bearer(elsewhere)), insufficient);
    await assertChallenged(pull(basic('token', elsewhere)), insufficient);
    const pushOnly = await issue({ ...holder, access: [access(served, 'push')] });
    await assertChallenged(pull(bearer(pushOnly)), insufficient);
    // The token is a password of the user 'token' only.
    await assertChallenged(pull(basic('ada', text)), details());
  }
  const removed = await issue({ account: 'bob', access: [access(served, 'pull')] });
  await assertChallenged(pull(bearer(removed)), insufficient);
});

test('the first request of a client is challenged where a login may help', async () => {
  const ping = (auth: ReturnType<typeof authOf>['auth'], headers = {}) =>
    auth.ping(requestOf(headers));
  await ping(authOf('open', {}).auth);
  await ping(authOf('off', {}).auth, basic('ada', 'old'));
  for (const { auth } of [authOf('open'), authOf('login', {})]) {
    await assertChallenged(ping(auth));
    await assertChallenged(ping(auth, bearer('invalid')), { error: 'invalid_token' });
    await assertChallenged(ping(auth, basic('ada', 'wrong')));
    await ping(auth, bearer(await issue({})));
  }
  await ping(authOf().auth, basic('ada', 'word'));
});

test('a user of the platform lists and pulls what the registry would show', async () => {
  const { auth, authenticator } = authOf();
  const repositories = { auth, authenticator, host } as unknown as Parameters<typeof pullRights>[3];
  const caller = (rights?: unknown) => ({ user: undefined, rights }) as unknown as Caller;
  const byAccount = requestOf(basic('ada', 'word'));
  assert.ok((await listRights(byAccount, caller(), repositories))('team/app').includes('push'));
  assert.ok(await pullRights(byAccount, caller(), 'team/app', repositories));
  await assert.rejects(pullRights(byAccount, caller(), 'other/app', repositories), {
    kind: 'not-found',
  });
  const anybody = await listRights(requestOf(), caller(), repositories);
  assert.deepEqual([anybody('public/app'), anybody('team/app')], [['pull'], []]);
  assert.deepEqual(
    [mayNotDelete('team/app').kind, mayNotDelete('a').phase],
    [...['denied', 'credentials']],
  );
});
