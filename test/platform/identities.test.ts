/** Whose credentials are used for which repository. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../src/foundation/fault.ts';
import type { Account } from '../../src/hosted/accounts/accounts.ts';
import type { RegistryToken } from '../../src/hosted/authenticator.ts';
import { pullRights } from '../../src/hosted/rights.ts';
import { createEndpoints } from '../../src/platform/endpoint.ts';
import { createIdentities, type SealedGrant } from '../../src/platform/identities.ts';
import { grantPlace } from '../../src/platform/seal-again.ts';
import type { TokenRights } from '../../src/platform/token-rights.ts';
import type { BuildMail, Grant, Platform } from '../../src/platform/workflow-platform.ts';
import { createSecretBox } from '../../src/storage/rows/secret-box.ts';
import type { CredentialSource } from '../../src/upstream/credentials.ts';

const ownHost = 'sluice.example.com';
const minute = 60_000;
const away = 'https://platform.example.com';

/** Credentials whose user name says whose they are. */
const named = (username: string) => ({ kind: 'password', username, password: 'x' }) as const;
/** Credentials for every registry but one that has none, and the hosted repositories. */
const sourceOf =
  (username: string): CredentialSource =>
  async registry =>
    registry === 'none.example.com' || registry === ownHost ? undefined : named(username);

interface State {
  accounts?: Record<string, Account>;
  rights?: TokenRights;
  email?: string | undefined;
  refusal?: Error;
  buildMail?: BuildMail;
  usualMail?: BuildMail;
}

function world(state: State = {}) {
  const issued: RegistryToken[] = [];
  const lives: number[] = [];
  const selected: unknown[] = [];
  const platformUsers: Grant[] = [];
  const accounts = new Map(Object.entries(state.accounts ?? {}));
  const platform = {
    async user(grant: Grant) {
      platformUsers.push(grant);
      if (state.refusal) throw state.refusal;
      const email = 'email' in state ? state.email : 'Ada@Lab.Example.org';
      const { rights: tokenRights, buildMail } = state;
      return { id: '7', userName: 'ada', email, tokenRights, buildMail };
    },
  } as unknown as Platform;
  const box = createSecretBox(Buffer.alloc(32, 1));
  const identities = createIdentities({
    ...{ platform, box, accounts, usualMail: state.usualMail },
    endpoints: createEndpoints({
      ...{ own: `https://${ownHost}/platform`, byDefault: undefined, aliases: {} },
      allow: [away],
    }),
    selection: {
      async find(grant, workspace, registry, repository) {
        selected.push([grant.accessToken, workspace, registry, repository]);
        if (registry === 'none.example.com') return undefined;
        return {
          ...{ id: '1', provider: 'container-reg', name: 'own', owner: 'user' },
          credentials: named('ada'),
        };
      },
      credentialsOf: () => assert.fail('not used'),
    },
    ...{ service: sourceOf('the service'), anonymous: sourceOf('everybody') },
    hosted: {
      host: ownHost,
      tokens: {
        async issue(token, lifeMs) {
          issued.push(token);
          lives.push(lifeMs);
          return `token ${issued.length}`;
        },
      },
      anybody: pullRights(['public/*']),
    },
    serviceRepositories: ['builds.example.com/images', `${ownHost}/builds`],
  });
  const userOf = async (grant: SealedGrant | undefined, registry: string, repository?: string) => {
    const found = await identities.credentialsOf(grant)(registry, repository);
    return found?.kind === 'password' ? found.username : undefined;
  };
  const login = async (workspace?: number) => {
    const claim = { platformAccessToken: 'secret', platformWorkspaceId: workspace };
    return (await identities.identify(claim)) ?? assert.fail('no identity');
  };
  return { identities, userOf, login, issued, lives, selected, platformUsers, box, accounts };
}

const all: Account = { password: 'x' };
const some: Account = { password: 'x', repositories: { 'team/*': 'push' } };

test('a user gets e-mails as the platform says, otherwise as the server says', async () => {
  const to = 'Ada@Lab.Example.org';
  const cases: [BuildMail | undefined, BuildMail | undefined, string[]][] = [
    [undefined, undefined, []],
    ['always', undefined, []],
    [undefined, 'never', []],
    [undefined, 'errors', ['failed']],
    [undefined, 'always', ['succeeded', 'failed']],
    ['never', 'always', []],
    ['errors', 'never', ['failed']],
    ['always', 'never', ['succeeded', 'failed']],
  ];
  for (const [buildMail, usualMail, expected] of cases) {
    const { identities, login } = world({
      ...(buildMail ? { buildMail } : {}),
      ...(usualMail ? { usualMail } : {}),
    });
    const { grant } = await login();
    const mailed = ['succeeded', 'failed'].filter(
      result => identities.mailOf(grant, result === 'succeeded') === to,
    );
    assert.deepEqual(mailed, expected, `${buildMail} ${usualMail}`);
  }
  const { identities, login } = world({ usualMail: 'always', email: undefined });
  const { grant } = await login();
  for (const other of [grant, undefined, 's2.lost.key' as SealedGrant]) {
    assert.equal(identities.mailOf(other, false), undefined);
  }
  assert.equal(identities.mailOf(identities.ofAccount('admin').grant, false), undefined);
});

test('operator credentials serve administrators with that role; all others have those for everybody', async () => {
  const { identities, userOf } = world({
    accounts: {
      ...{ all, some },
      role: { password: 'x', roles: ['registries'] },
      other: { password: 'x', roles: ['site', 'audit'] },
    },
  });
  for (const [name, expected] of [
    ['all', 'the service'],
    ['role', 'the service'],
    ['other', 'everybody'],
    ['some', 'everybody'],
    ['removed', 'everybody'],
  ] as const) {
    const { grant } = identities.ofAccount(name);
    assert.equal(await userOf(grant, 'quay.io', 'team/app'), expected, name);
    const found = await identities.find(grant, 'quay.io', 'team/app');
    assert.deepEqual([found?.name, found?.owner], ['quay.io', 'service']);
  }
  assert.equal(await userOf(undefined, 'quay.io', 'team/app'), 'everybody');
  assert.equal(await userOf(undefined, 'none.example.com', 'team/app'), undefined);
});

test('nobody gets listed credentials for the repositories of the service, except its builds', async () => {
  const { identities, userOf } = world({ accounts: { all } });
  const { grant } = identities.ofAccount('all');
  for (const caller of [grant, undefined]) {
    for (const path of ['images', 'images/deep']) {
      assert.equal(await userOf(caller, 'builds.example.com', path), undefined);
      const source = identities.serviceCredentialsOf(caller);
      assert.deepEqual(await source('builds.example.com', path), named('the service'));
    }
    assert.ok(await userOf(caller, 'builds.example.com', 'imagesx'));
  }
  const source = identities.serviceCredentialsOf(undefined);
  assert.deepEqual(await source('quay.io', 'team/app'), named('everybody'));
  assert.ok(identities.isOfService('builds.example.com', 'images/deep'));
  assert.ok(identities.isOfService(ownHost, 'builds/x'));
  assert.ok(!identities.isOfService('builds.example.com', 'other'));
  assert.ok(!identities.isOfService('quay.io', 'images'));
});

test('an account uses hosted repositories with a token that has no more than the use needs', async () => {
  const { identities, issued, lives, accounts } = world({ accounts: { some } });
  const { grant } = identities.ofAccount('some');
  const find = (repository: string | undefined, use?: 'pull' | 'push') =>
    identities.find(grant, ownHost, repository, use);
  const token = (number: number) => ({
    ...{ name: ownHost, owner: 'user' },
    credentials: { kind: 'password', username: 'token', password: `token ${number}` },
  });
  assert.deepEqual(await find('team/app'), token(1));
  assert.deepEqual(await find('team/app', 'push'), token(2));
  assert.deepEqual(await find('team/other'), token(3));
  assert.deepEqual(await find('team/app', 'pull'), token(1), 'one token for some time');
  const tokenFor = (name: string, ...actions: ('pull' | 'push')[]) => ({
    ...{ account: 'some', access: [{ type: 'repository', name, actions }] },
  });
  assert.deepEqual(issued, [
    tokenFor('team/app', 'pull'),
    tokenFor('team/app', 'pull', 'push'),
    tokenFor('team/other', 'pull'),
  ]);
  assert.deepEqual(new Set(lives), new Set([10 * minute]));
  assert.equal(await find('public/app'), undefined, 'everybody may pull it');
  assert.ok(await find('public/app', 'push'));
  assert.equal(await find(undefined), undefined);
  assert.equal(await identities.find(grant, 'none.example.com', 'team/app'), undefined);
  accounts.delete('some');
  assert.equal(await find('team/app'), undefined);
  assert.equal(await identities.find(undefined, ownHost, 'team/app'), undefined);
});

test('a token for a hosted repository is renewed in the middle of its life', async t => {
  let now = 10_000;
  t.mock.method(performance, 'now', () => now);
  const { identities, issued } = world({ accounts: { some } });
  const { grant } = identities.ofAccount('some');
  for (const [after, count] of [
    [0, 1],
    [5 * minute - 1000, 1],
    [2000, 2],
  ] as const) {
    now += after;
    // The cache reads the clock once in a millisecond.
    await sleep(5);
    await identities.find(grant, ownHost, 'team/app');
    assert.equal(issued.length, count);
  }
});

test('each account has its own tokens for hosted repositories', async () => {
  const { identities, issued } = world({ accounts: { some, other: some } });
  for (const name of ['some', 'other']) {
    await identities.find(identities.ofAccount(name).grant, ownHost, 'team/app');
  }
  assert.deepEqual(
    issued.map(({ account }) => account),
    ['some', 'other'],
  );
});

test('users of a platform share no token with an account, whatever its name is', async () => {
  const { identities, issued, login } = world({ accounts: { undefined: all } });
  const { grant, home = '' } = await login();
  const repository = `${home.slice(ownHost.length + 1)}/app`;
  await identities.find(grant, ownHost, repository);
  await identities.find(identities.ofAccount('undefined').grant, ownHost, repository);
  assert.deepEqual(
    issued.map(({ account }) => account),
    [undefined, 'undefined'],
  );
});

test('users of a platform have their own credentials only, of their workspace', async () => {
  const { login, userOf, identities, selected } = world();
  const { grant } = await login(12);
  assert.equal(await userOf(grant, 'quay.io', 'team/app'), 'ada');
  assert.equal(await userOf(grant, 'none.example.com', 'team/app'), undefined);
  assert.equal(await userOf(grant, 'builds.example.com', 'images/x'), 'ada');
  const source = identities.serviceCredentialsOf(grant);
  assert.deepEqual(await source('builds.example.com', 'images/x'), named('the service'));
  assert.deepEqual(selected[0], ['secret', '12', 'quay.io', 'team/app']);
  const { grant: personal } = await login();
  await userOf(personal, 'quay.io');
  assert.deepEqual(selected.at(-1), ['secret', undefined, 'quay.io', undefined]);
});

test('users of a platform use the hosted repositories below their home, with a token for one of them', async () => {
  const { login, identities, issued } = world();
  const { grant, home = '' } = await login();
  assert.match(home, /^sluice\.example\.com\/users\/ada-[0-9a-f]{16}$/);
  const path = home.slice(ownHost.length + 1);
  const found = await identities.find(grant, ownHost, `${path}/app`, 'push');
  assert.equal(found?.owner, 'user');
  assert.equal(found?.name, ownHost);
  assert.deepEqual(found?.credentials, { ...named('token'), password: 'token 1' });
  const access = [{ type: 'repository', name: `${path}/app`, actions: ['pull', 'push'] }];
  assert.deepEqual(issued, [{ account: undefined, access }]);
  for (const [registry, repository] of [
    [ownHost, path],
    [ownHost, `${path}x/app`],
    [ownHost, undefined],
    ['quay.io', `${path}/app`],
  ] as const) {
    const other = await identities.find(grant, registry, repository);
    assert.deepEqual(other?.credentials, named('ada'), `${registry}/${repository}`);
  }
  assert.equal(issued.length, 1);
});

test('a token for certain repositories has the credentials for those only', async () => {
  const repositories = ['quay.io/team/*', 'mine/*', 'whole.example.com/*'];
  const { login, userOf, identities } = world({ rights: { scopes: ['pull'], repositories } });
  const { grant, rights } = await login();
  assert.deepEqual(rights, { scopes: ['pull'], repositories });
  assert.equal(await userOf(grant, 'quay.io', 'team/app'), 'ada');
  assert.equal(await userOf(grant, ownHost, 'mine/app'), 'ada');
  assert.equal(await userOf(grant, 'whole.example.com'), 'ada', 'all of that registry');
  assert.equal(await userOf(grant, 'quay.io'), undefined, 'not all of this one');
  for (const [registry, repository] of [
    ['quay.io', 'other/app'],
    ['quay.io', 'mine/app'],
    ['docker.io', 'library/alpine'],
  ] as const) {
    await assert.rejects(userOf(grant, registry, repository), { kind: 'denied' });
  }
  assert.equal(await userOf(grant, 'builds.example.com', 'images/x'), undefined);
  const source = identities.serviceCredentialsOf(grant);
  assert.deepEqual(await source('builds.example.com', 'images/x'), named('the service'));
});

test('the scope of a caller is the person, the workspace and the limits of the token', async () => {
  const person = `https://${ownHost}/platform 7`;
  const { login, identities } = world();
  const { user, scope, grant } = await login();
  assert.deepEqual([user, scope], [person, `${person} `]);
  assert.equal((await login(5)).scope, `${person} 5`);
  assert.equal(identities.limitsOf(grant), '');
  assert.equal(identities.limitsOf(undefined), '');
  assert.equal(identities.limitsOf(identities.ofAccount('x').grant), '');
  const limited = world({ rights: { scopes: ['pull'], repositories: ['a/*'] } });
  const one = await limited.login();
  assert.equal(one.scope, `${person}  ["a/*"]`);
  assert.equal(limited.identities.limitsOf(one.grant), ' ["a/*"]');
});

test('a caller is named by the e-mail address, and belongs to its domain', async () => {
  const { name, org, rights } = await world().login();
  assert.deepEqual([name, org, rights], ['Ada@Lab.Example.org', 'lab.example.org', undefined]);
  const without = await world({ email: undefined }).login();
  assert.deepEqual([without.name, without.org], ['ada', undefined]);
});

test('an account of this server is a person of its own', () => {
  const { identities } = world();
  const { grant, ...rest } = identities.ofAccount('ada');
  assert.deepEqual(rest, {
    ...{ user: 'account ada', name: 'ada', scope: 'account ada', org: undefined },
  });
});

test('a request without an access token has no identity, and is not asked about', async () => {
  const { identities, platformUsers } = world();
  assert.equal(await identities.identify({}), undefined);
  assert.equal(await identities.identify({ platformAccessToken: '' }), undefined);
  assert.deepEqual(platformUsers, []);
});

test('the platform that a request names is asked, with all that it has sent', async () => {
  const { identities, platformUsers } = world();
  const claim = { platformAccessToken: 'a', platformRefreshToken: 'r', platformEndpoint: away };
  const identity = await identities.identify({ ...claim, platformWorkspaceId: 3 });
  const grant = { endpoint: away, accessToken: 'a', refreshToken: 'r', workspaceId: '3' };
  assert.deepEqual(platformUsers, [grant]);
  assert.equal(identity?.user, `${away} 7`);
  assert.ok(!identities.isForOwnPlatform(claim));
  assert.ok(identities.isForOwnPlatform({}));
  const elsewhere = { ...claim, platformEndpoint: 'https://evil.example.com' };
  await assert.rejects(identities.identify(elsewhere), { kind: 'bad-request' });
});

test('whoever the platform refuses is not identified, and a grant ends with its token or account', async () => {
  const state: State = { accounts: { some } };
  const { identities, login, platformUsers, accounts } = world(state);
  const { grant } = await login();
  await identities.require(grant);
  const [first, again] = platformUsers;
  assert.equal(again?.accessToken, first?.accessToken);
  state.refusal = new Fault('denied', 'revoked');
  await assert.rejects(identities.require(grant), state.refusal);
  await assert.rejects(login(), state.refusal);
  const account = identities.ofAccount('some').grant;
  await identities.require(account);
  accounts.delete('some');
  await assert.rejects(identities.require(account), { kind: 'denied' });
});

test('a grant is secret, and only one of this place is opened', async () => {
  const { login, identities, box } = world();
  const { grant } = await login();
  assert.ok(!grant.includes('secret'));
  const elsewhere = box.seal('{"account":"all"}', 'credentials 1') as SealedGrant;
  for (const wrong of [elsewhere, 'nonsense' as SealedGrant]) {
    await assert.rejects(identities.require(wrong), { kind: 'unavailable' });
  }
  await assert.rejects(identities.require(box.seal('{"account":"x"}', grantPlace) as SealedGrant), {
    kind: 'denied',
  });
});
