/** Administrators with one role each: what they may do, and what a token that they create for a user may do. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { administratorRoles } from '../../../src/hosted/accounts/administrator-roles.ts';
import { call, type Reply } from '../../faults/http-client.ts';
import { assertSuccess } from '../../integration/served.ts';
import { type Sluice, startSluice } from '../../world/sluice.ts';
import { sluiceCommand } from '../../world/sluice-command.ts';
import { administrator, basic, jsonOf } from './platform-server.ts';

let sluice: Sluice;
let ada: { readonly id: number; readonly token: string };
let workspace: number;
let credentials: string;
before(async () => {
  const roles = administratorRoles.map(role => [role, { password: 'word', roles: [role] }]);
  sluice = await startSluice({
    config: {
      accounts: {
        admin: 'admin-s3cret',
        ...Object.fromEntries(roles),
        most: { password: 'word', roles: ['site', 'tokens', 'audit', 'registries'] },
        none: { password: 'word', roles: [] },
        pusher: { password: 'word', roles: ['audit'], repositories: { 'team/*': 'push' } },
      },
    },
  });
  const { user } = jsonOf(await ask('POST', '/users', administrator, { email: 'ada@example.org' }));
  const made = await mint(administrator, {});
  ada = { id: user.id, token: jsonOf(made).accessKey };
  const lab = await ask('POST', '/workspaces', administrator, { name: 'lab' });
  workspace = jsonOf(lab).workspace.id;
  const keys = { registry: 'quay.io', userName: 'u', password: 'a secret of Ada' };
  const added = await ask('POST', '/credentials', `Bearer ${ada.token}`, { credentials: { keys } });
  credentials = jsonOf(added).credentialsId;
});
after(() => sluice?.stop());

const send = (path: string, method: string, authorization: string, body?: object) =>
  call(sluice.url + path, {
    method,
    headers: { authorization, 'content-type': 'application/json', accept: 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
const ask = (method: string, path: string, authorization: string, body?: object) =>
  send(`/platform${path}`, method, authorization, body);
const mint = (authorization: string, limits: object) =>
  ask('POST', '/tokens', authorization, {
    ...{ user: 'ada@example.org', name: `${Math.random()}`, ...limits },
  });
const page = (path: string, authorization: string, body?: string) =>
  call(sluice.url + path, {
    headers: {
      ...{ authorization, accept: 'text/html' },
      ...(body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
    },
    ...(body === undefined ? {} : { method: 'POST', body }),
  });

const text = () => `x${Math.random().toString(36).slice(2)}`;
/** The role that each route requires; `any` for all administrators. */
const routes: readonly (readonly [string, (who: string) => Promise<Reply>])[] = [
  ['any', who => ask('GET', '/users', who)],
  ['any', who => ask('GET', '/workspaces', who)],
  ['any', who => ask('GET', `/workspaces/${workspace}/members`, who)],
  ['any', who => page(`/view/account/workspaces/${workspace}`, who)],
  ['site', who => ask('POST', '/users', who, { email: `${text()}@example.org` })],
  ['site', who => ask('DELETE', '/users/999999', who)],
  ['site', who => ask('POST', '/workspaces', who, { name: text() })],
  ['site', who => ask('DELETE', '/workspaces/999999', who)],
  ['site', who => page('/view/account/workspaces', who, `name=${text()}`)],
  ['site', who => send('/metrics/hosts', 'GET', who)],
  ['site', who => send('/v1alpha2/metrics/pulls', 'GET', who)],
  ['site', who => send('/v1alpha1/figures/pulled-images', 'GET', who)],
  ['site', who => send('/container-token/absent', 'DELETE', who)],
  ['site', who => page('/view/usage', who)],
  ['tokens', who => ask('GET', '/tokens', who)],
  ['tokens', who => ask('DELETE', '/tokens/999999', who)],
  ['tokens', who => mint(who, {})],
  ['credentials', who => ask('GET', '/credentials', who)],
  ['credentials', who => ask('GET', '/credentials?user=ada@example.org', who)],
  ['credentials', who => ask('DELETE', '/credentials/absent', who)],
  [
    'credentials',
    who =>
      ask('POST', '/credentials', who, {
        ...{ user: 'ada@example.org' },
        credentials: { name: text(), keys: { userName: 'u', password: 'p' } },
      }),
  ],
  [
    'credentials',
    who => ask('POST', `/workspaces/${workspace}/members`, who, { user: 'ada@example.org' }),
  ],
  ['credentials', who => ask('DELETE', `/workspaces/${workspace}/members/999999`, who)],
  [
    'credentials',
    who => page(`/view/account/workspaces/${workspace}/members`, who, 'user=ada@example.org'),
  ],
  [
    'credentials',
    who => page(`/view/account/workspaces/${workspace}/members/999999/remove`, who, ''),
  ],
  ['audit', who => ask('GET', '/audit', who)],
  ['audit', who => ask('GET', '/audit?of=pulls', who)],
];

suite('administrators with roles', () => {
  for (const [at, [role, ask]] of routes.entries()) {
    test(`route ${at + 1} requires the role ${role}`, async () => {
      for (const own of [...administratorRoles, 'none', 'pusher']) {
        const reply = await ask(basic(own, 'word'));
        const roles = own === 'none' ? [] : [own === 'pusher' ? 'audit' : own];
        const about = `${own}: ${reply.status} ${reply.body}`;
        if (role === 'any' ? roles.length > 0 : roles.includes(role)) {
          assert.ok(![401, 403].includes(reply.status), about);
          continue;
        }
        assert.equal(reply.status, 403, about);
        const why = roles.length === 0 ? /administrator/ : new RegExp(`role (?:'|&#39;)${role}`);
        assert.match(String(reply.body), why, about);
      }
      assert.ok(![401, 403].includes((await ask(administrator)).status), 'a whole administrator');
    });
  }

  test('without the role credentials, no way leads to the secrets of a user', async () => {
    for (const name of ['tokens', 'most']) {
      const who = basic(name, 'word');
      for (const scopes of [['manage'], ['pull', 'request', 'build', 'manage']]) {
        const refused = await mint(who, { scopes });
        assert.equal(refused.status, 403, `${name} ${scopes}`);
        assert.match(String(refused.body), /role 'credentials'/);
      }
      for (const limits of [{}, { scopes: ['request', 'pull'] }, { repositories: ['*'] }]) {
        const made = await mint(who, limits);
        assert.equal(made.status, 200, String(made.body));
        const { accessKey, token } = jsonOf(made);
        assert.equal(token.createdBy, `account ${name}`);
        assert.equal(token.scopes.includes('manage'), false);
        const bearer = `Bearer ${accessKey}`;
        const wider = { name: text(), scopes: ['manage'] };
        for (const reply of [
          await ask('GET', `/credentials/${credentials}/keys`, bearer),
          await ask('GET', '/credentials', bearer),
          await ask('POST', '/tokens', bearer, wider),
          await page('/view/account/tokens', bearer, `name=${text()}&scope=manage`),
        ]) {
          assert.equal(reply.status, 403, String(reply.body));
          assert.equal(String(reply.body).includes('a secret of Ada'), false);
        }
        const shown = await page('/view/account', bearer);
        assert.equal(String(shown.body).includes('quay.io'), false, 'the page');
      }
      // A user in a workspace reads its credentials.
      const add = { user: 'ada@example.org' };
      const member = await ask('POST', `/workspaces/${workspace}/members`, who, add);
      assert.equal(member.status, 403);
    }
  });

  test('a token of another user leaves an entry, and its user sees who created it', async () => {
    const made = jsonOf(await mint(basic('tokens', 'word'), { name: 'seen', scopes: ['pull'] }));
    assert.equal(made.token.name, 'seen');
    const list = jsonOf(await ask('GET', '/tokens', `Bearer ${ada.token}`));
    const seen = list.tokens.find(({ name }: { name: string }) => name === 'seen');
    assert.equal(seen.createdBy, 'account tokens');
    assert.deepEqual(seen.scopes, ['pull']);
    const shown = await page('/view/account', `Bearer ${ada.token}`);
    assert.match(String(shown.body), /by account tokens/);
    const { entries } = jsonOf(await ask('GET', '/audit', basic('audit', 'word')));
    assert.deepEqual(
      entries
        .slice(0, 1)
        .map(({ actor, action, target }: Record<string, string>) => [actor, action, target]),
      [['account tokens', 'token.create', "'seen' of ada@example.org (pull)"]],
    );
  });

  test('the command line creates a token with limits, and shows them', async () => {
    const data = ['--data', sluice.data];
    const limits = ['--scope', 'pull,request', '--repositories', 'team/*,quay.io/team/*'];
    const options = ['--user', 'ada@example.org', '--name', 'by hand', ...limits, '--json'];
    const made = JSON.parse(
      assertSuccess(await sluiceCommand(['token', 'add', ...options, ...data])),
    );
    assert.deepEqual(made.scopes, ['pull', 'request']);
    assert.deepEqual(made.repositories, ['team/*', 'quay.io/team/*']);
    assert.match(made.createdBy, /^command line/);
    const list = assertSuccess(await sluiceCommand(['token', 'list', ...data]));
    assert.match(list, /by hand .*pull,request team\/\* quay\.io\/team\/\* +command line/);
    const wrong = ['token', 'add', '--user', 'ada@example.org', '--name', 'x', '--scope', 'all'];
    const { code, stderr } = await sluiceCommand([...wrong, ...data]);
    assert.notEqual(code, 0);
    assert.match(stderr, /pull.*request.*build.*manage/);
  });
});
