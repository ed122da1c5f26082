/** Users, tokens, workspaces and credentials of the built-in platform over HTTP, and who may see and change them. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { assertApiFault } from '../../faults/http-client.ts';
import { makePlatformWorld } from '../../platform/platform-world.ts';
import {
  administrator,
  jsonOf,
  type PlatformServer,
  startPlatformServer,
} from './platform-server.ts';

interface Credentials {
  readonly id: string;
  readonly name: string;
  readonly lastUsed: string | null;
}
interface CredentialsList {
  readonly credentials: readonly Credentials[];
  readonly totalSize: number;
}

const secret = 'hunter2-5f1c9e';

suite('who may see and change what', { concurrency: 4 }, () => {
  let server: PlatformServer;
  before(async () => {
    server = await startPlatformServer();
  });
  after(() => server?.[Symbol.asyncDispose]());

  const login = (registry: string, name?: string) => ({
    credentials: {
      name,
      provider: 'container-reg',
      keys: { registry, userName: 'robot', password: secret },
    },
  });
  const addCredentials = async (authorization: string, body: object, query = '') =>
    (
      await server.must<{ credentialsId: string }>(
        'POST',
        `/credentials${query}`,
        body,
        authorization,
      )
    ).credentialsId;
  const makeWorkspace = async (name: string, ...members: string[]) => {
    const { workspace } = await server.must<{ workspace: { id: number } }>('POST', '/workspaces', {
      name,
    });
    for (const user of members)
      await server.must('POST', `/workspaces/${workspace.id}/members`, { user });
    return workspace.id;
  };

  test('users manage their own tokens, and see the value of a token once', async () => {
    const [ada, bob] = [
      await server.makeUser('ada1@example.org'),
      await server.makeUser('bob1@example.org'),
    ];
    const { accessKey, token } = await server.must<{
      accessKey: string;
      token: { id: number; name: string; lastUsed: null };
    }>('POST', '/tokens', { name: 'laptop' }, ada.authorization);
    assert.equal(token.name, 'laptop');
    assert.equal(token.lastUsed, null);
    const list = await server.ask('GET', '/tokens', `Bearer ${accessKey}`);
    assert.equal(list.body.includes(accessKey), false);
    const { tokens, totalSize } = jsonOf(list);
    assert.equal(totalSize, 2);
    assert.deepEqual(
      tokens.map(({ name }: { name: string }) => name),
      ['test', 'laptop'],
    );
    const today = new Date().toISOString().slice(0, 10);
    for (const { lastUsed } of tokens) assert.match(lastUsed, new RegExp(`^${today}T00:00:00Z$`));

    const foreign = await server.ask('DELETE', `/tokens/${token.id}`, bob.authorization);
    assertApiFault(foreign, 404, /access token .* does not exist/);
    const forOther = { name: 'x', user: 'ada1@example.org' };
    assertApiFault(
      await server.ask('POST', '/tokens', bob.authorization, forOther),
      403,
      /another user/,
    );
    assertApiFault(
      await server.ask('GET', '/tokens?user=ada1@example.org', bob.authorization),
      403,
      /another user/,
    );
    assert.equal((await server.ask('POST', '/tokens', ada.authorization, forOther)).status, 200);
    const all = await server.must<{ tokens: { user: string }[] }>('GET', '/tokens');
    assert.ok(new Set(all.tokens.map(({ user }) => user)).size >= 2, 'an administrator sees all');
    const nobody = await server.ask('POST', '/tokens', administrator, { name: 'x' });
    assertApiFault(nobody, 400, /'user' is missing: send the e-mail address/);
  });

  test('an expiring token cannot create a token that lasts longer', async () => {
    const ada = await server.makeUser('ada8@example.org');
    const make = (name: string, authorization: string, expiration?: string) =>
      server.ask('POST', '/tokens', authorization, { name, ...(expiration ? { expiration } : {}) });
    const end = '2077-01-02T03:04:05Z';
    const { accessKey } = jsonOf(await make('ends', ada.authorization, end));
    const ending = `Bearer ${accessKey}`;
    for (const [name, expiration] of [
      ['like it', undefined],
      ['as long', '2077-01-02T04:04:05+01:00'],
    ] as const) {
      const { token } = jsonOf(await make(name, ending, expiration));
      assert.equal(token.expiration, end);
    }
    const sooner = jsonOf(await make('sooner', ending, '2066-01-01T00:00:00Z'));
    assert.equal(sooner.token.expiration, '2066-01-01T00:00:00Z');
    const longer = await make('longer', ending, '2077-01-02T03:04:06Z');
    assertApiFault(longer, 403, /cannot create one that expires later/);
    assert.equal(jsonOf(await make('for ever', ada.authorization)).token.expiration, null);
  });

  test('credentials: listed without secrets, secrets for their user only, last use recorded', async () => {
    const [ada, bob] = [
      await server.makeUser('ada2@example.org'),
      await server.makeUser('bob2@example.org'),
    ];
    const id = await addCredentials(ada.authorization, login('https://Quay.io/team/'));
    const reply = await server.ask('GET', '/credentials', ada.authorization);
    assert.equal(reply.body.includes(secret), false);
    const { credentials, totalSize } = jsonOf(reply);
    assert.equal(totalSize, 1);
    const { dateCreated, ...entry } = credentials[0];
    assert.match(dateCreated, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    assert.deepEqual(entry, {
      id,
      name: 'quay.io/team',
      provider: 'container-reg',
      keys: { registry: 'quay.io/team', userName: 'robot' },
      user: 'ada2@example.org',
      lastUsed: null,
    });

    const { keys } = await server.must<{ keys: string }>(
      'GET',
      `/credentials/${id}/keys`,
      undefined,
      ada.authorization,
    );
    assert.deepEqual(JSON.parse(keys), {
      discriminator: 'container-reg',
      registry: 'quay.io/team',
      userName: 'robot',
      password: secret,
    });
    const again = await server.must<CredentialsList>(
      'GET',
      '/credentials',
      undefined,
      ada.authorization,
    );
    assert.match(String(again.credentials[0]?.lastUsed), /T00:00:00Z$/);

    for (const path of [`/credentials/${id}/keys`, `/credentials/${id}/keys?workspaceId=1`]) {
      const refused = await server.ask('GET', path, bob.authorization);
      assert.ok(refused.status === 404 || refused.status === 403);
      assert.equal(refused.body.includes(secret), false);
    }
    assertApiFault(
      await server.ask('DELETE', `/credentials/${id}`, bob.authorization),
      404,
      /credentials .* do not exist/,
    );
    assert.deepEqual(await server.must('GET', '/credentials', undefined, bob.authorization), {
      credentials: [],
      totalSize: 0,
    });
    const gone = await server.ask('DELETE', `/credentials/${id}`, ada.authorization);
    assert.equal(gone.status, 204);
    assertApiFault(
      await server.ask('GET', `/credentials/${id}/keys`, ada.authorization),
      404,
      /credentials .* do not exist/,
    );
  });

  test('a workspace: for its members, by its number in the query or the body', async () => {
    const emails = ['ada3@example.org', 'bob3@example.org', 'eve3@example.org'] as const;
    const [ada, bob, eve] = [
      await server.makeUser(emails[0]),
      await server.makeUser(emails[1]),
      await server.makeUser(emails[2]),
    ];
    const id = await makeWorkspace('genomics', emails[0], emails[1]);
    const one = await addCredentials(ada.authorization, login('ghcr.io'), `?workspaceId=${id}`);
    const two = await addCredentials(ada.authorization, { ...login('quay.io'), workspaceId: id });
    const path = `/credentials?workspaceId=${id}`;
    const seen = await server.must<CredentialsList>('GET', path, undefined, bob.authorization);
    assert.deepEqual(
      seen.credentials.map(entry => entry.id),
      [one, two],
    );
    await server.must(
      'GET',
      `/credentials/${one}/keys?workspaceId=${id}`,
      undefined,
      bob.authorization,
    );
    const alone = await server.ask('GET', `/credentials/${one}/keys`, bob.authorization);
    assertApiFault(alone, 404, /credentials .* do not exist/);

    for (const [method, target, body] of [
      ['GET', path],
      ['GET', `/credentials/${one}/keys?workspaceId=${id}`],
      ['POST', path, login('a.io')],
    ] as const) {
      const refused = await server.ask(method, target, eve.authorization, body);
      assertApiFault(refused, 403, /not a member of workspace/);
    }
    assertApiFault(
      await server.ask('DELETE', `/credentials/${one}`, eve.authorization),
      404,
      /credentials .* do not exist/,
    );
    const own = { workspaces: [{ id, name: 'genomics' }] };
    const { workspaces } = await server.must<typeof own>(
      'GET',
      '/workspaces',
      undefined,
      bob.authorization,
    );
    assert.deepEqual(
      workspaces.map(workspace => workspace.name),
      ['genomics'],
    );
    assert.deepEqual(await server.must('GET', '/workspaces', undefined, eve.authorization), {
      workspaces: [],
      totalSize: 0,
    });

    const ended = await server.ask('DELETE', `/workspaces/${id}/members/${bob.id}`, administrator);
    assert.equal(ended.status, 204);
    assertApiFault(await server.ask('GET', path, bob.authorization), 403, /not a member/);
    assert.equal((await server.ask('DELETE', `/workspaces/${id}`, administrator)).status, 204);
    assertApiFault(await server.ask('GET', path, ada.authorization), 403, /not a member/);
  });

  test("removing a user removes the user's tokens and credentials", async () => {
    const ada = await server.makeUser('ada4@example.org');
    await addCredentials(ada.authorization, login('quay.io'));
    const all = async () =>
      (
        await server.must<{ credentials: { user?: string }[] }>('GET', '/credentials')
      ).credentials.filter(({ user }) => user === 'ada4@example.org').length;
    assert.equal(await all(), 1);
    assert.equal((await server.ask('DELETE', `/users/${ada.id}`, administrator)).status, 204);
    assertApiFault(await server.ask('GET', '/user-info', ada.authorization), 403, /invalid/);
    assert.equal(await all(), 0);
  });

  test('the pages of a list together contain every entry', async () => {
    const ada = await server.makeUser('ada5@example.org');
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await addCredentials(administrator, { ...login('quay.io', name), user: 'ada5@example.org' });
    }
    const names: string[] = [];
    for (const [offset, length] of [
      [0, 2],
      [2, 2],
      [4, 1],
      [6, 0],
    ] as const) {
      const page = await server.must<CredentialsList>(
        'GET',
        `/credentials?max=2&offset=${offset}`,
        undefined,
        ada.authorization,
      );
      assert.equal(page.totalSize, 5);
      assert.equal(page.credentials.length, length);
      names.push(...page.credentials.map(({ name }) => name));
    }
    assert.deepEqual(names, ['a', 'b', 'c', 'd', 'e']);
  });

  test("Sluice's client for other platforms understands the API", async () => {
    const ada = await server.makeUser('ada6@example.org');
    const id = await makeWorkspace('clients', 'ada6@example.org');
    const own = await addCredentials(ada.authorization, login('quay.io/team'));
    const shared = await addCredentials(ada.authorization, {
      workspaceId: id,
      credentials: {
        name: 'cloud',
        description: 'for builds',
        provider: 'aws',
        keys: { accessKey: 'AKIA1', secretKey: secret },
      },
    });
    const endpoint = `${server.sluice.url}/platform`;
    await using world = await makePlatformWorld({ allow: [endpoint] });
    for (const address of [endpoint, `${endpoint}/api`, `${endpoint}/`]) {
      const grant = { endpoint: address, accessToken: ada.accessToken };
      const user = await world.platform.user(grant);
      assert.deepEqual(user, { id: String(ada.id), userName: 'ada6', email: 'ada6@example.org' });
    }
    const grant = { endpoint, accessToken: ada.accessToken };
    const [entry] = await world.platform.credentials(grant);
    assert.equal(entry?.id, own);
    assert.equal(entry?.registry, 'quay.io/team');
    const [cloud] = await world.platform.credentials(grant, String(id));
    assert.equal(cloud?.id, shared);
    assert.equal(cloud?.provider, 'aws');
    assert.equal(cloud?.description, 'for builds');
    assert.deepEqual(await world.platform.keys(grant, own), {
      kind: 'container-reg',
      username: 'robot',
      password: secret,
      registry: 'quay.io/team',
    });
    const aws = await world.platform.keys(grant, shared, String(id));
    assert.deepEqual(JSON.parse(JSON.stringify(aws)), {
      kind: 'aws',
      accessKey: 'AKIA1',
      secretKey: secret,
    });
    await assert.rejects(world.platform.credentials(grant, '999'), { kind: 'denied' });
    await assert.rejects(world.platform.keys(grant, own, String(id)), { kind: 'not-found' });
    await assert.rejects(world.platform.user({ endpoint, accessToken: 'sluice_wrong' }), {
      kind: 'denied',
    });
  });

  test('neither the log nor the data directory contains a token or a password', async () => {
    const ada = await server.makeUser('ada7@example.org');
    const id = await addCredentials(ada.authorization, login('quay.io'));
    await server.must('GET', `/credentials/${id}/keys`, undefined, ada.authorization);
    // Who takes a token for a part of the path, or writes it into a body that is wrong.
    await server.ask('GET', `/tokens/${ada.accessToken}`, ada.authorization);
    await server.ask('POST', '/tokens', ada.authorization, `{"name": "${ada.accessToken}`);
    await server.ask('POST', '/credentials', ada.authorization, login(`${secret}`));
    const paths = (await server.sluice.requests()).map(({ path }) => path);
    assert.ok(paths.includes('/platform/tokens/<token>'));

    const secrets = [
      secret,
      ada.accessToken,
      ada.accessToken.slice('sluice_'.length),
      'admin-s3cret',
    ];
    const encoded = secrets.map(text => Buffer.from(text).toString('base64').replace(/.=*$/, ''));
    const { data } = server.sluice;
    const files = globSync('**/*', { cwd: data, withFileTypes: true }).filter(file =>
      file.isFile(),
    );
    const names = files.map(({ name }) => name);
    assert.ok(names.includes('sluice.db') && names.includes('sluice.db-wal'), names.join());
    for (const text of [...secrets, ...encoded]) {
      assert.equal(server.sluice.output().includes(text), false, `${text} in the log`);
      for (const { parentPath, name } of files) {
        const bytes = readFileSync(`${parentPath}/${name}`);
        assert.equal(bytes.includes(text), false, `${text} in ${name}`);
      }
    }
  });
});
