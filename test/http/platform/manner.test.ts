/** The conventions of the platform's API: spec/platform-api.md, sections 4 to 9. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertApiFault, call } from '../../faults/http-client.ts';
import {
  administrator,
  basic,
  jsonOf,
  type PlatformServer,
  startPlatformServer,
} from './platform-server.ts';

suite('the API of the built-in platform', { concurrency: 4 }, () => {
  let server: PlatformServer;
  let users = 0;
  // One for each test: the calls of one do not count for another.
  const makeUser = async () => {
    users += 1;
    const email = `ada${users}@example.org`;
    return { email, ...(await server.makeUser(email)) };
  };
  before(async () => {
    server = await startPlatformServer();
  });
  after(() => server?.[Symbol.asyncDispose]());

  test('answers at its address, below /api, and with a trailing slash', async () => {
    const ada = await makeUser();
    for (const path of ['/user-info', '/api/user-info', '/user-info/', '/api/user-info/']) {
      const reply = await server.ask('GET', path, ada.authorization);
      assert.equal(reply.status, 200, path);
      assert.match(String(reply.headers['content-type']), /^application\/json/);
      assert.equal(reply.headers['cache-control'], 'no-store');
      const { user } = jsonOf(reply);
      assert.equal(user.email, ada.email);
      assert.equal(user.userName, ada.email.replace('@example.org', ''));
      assert.equal(user.id, ada.id);
      assert.match(user.dateCreated, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    }
    const head = await server.ask('HEAD', '/user-info', ada.authorization);
    assert.equal(head.status, 200);
    assert.equal(head.body.length, 0);
  });

  test('answers the first calls of workflow engines', async () => {
    const ada = await makeUser();
    // Tokens that are not JSON web tokens come as a password.
    const authorization = basic('@token', ada.accessToken);
    const { user } = jsonOf(await server.ask('GET', '/user-info', authorization));
    assert.equal(user.email, ada.email);
    assertApiFault(await server.ask('GET', '/user-info', basic('@token', 'x')), 403, /invalid/);

    const { workspace } = await server.must<{ workspace: { id: number } }>('POST', '/workspaces', {
      name: 'started',
    });
    await server.must('POST', `/workspaces/${workspace.id}/members`, { user: ada.email });
    const listed = await server.ask('GET', `/user/${ada.id}/workspaces`, authorization);
    const [entry] = jsonOf(listed).orgsAndWorkspaces;
    assert.deepEqual(
      [entry.workspaceId, entry.workspaceName, entry.workspaceFullName],
      [workspace.id, 'started', 'sluice/started'],
    );
    const others = await server.ask('GET', `/user/${ada.id + 1}/workspaces`, authorization);
    assertApiFault(others, 403, /belongs to another user/);

    const create = await server.ask('POST', '/trace/create', authorization, { runName: 'a' });
    const { workflowId, message } = jsonOf(create);
    assert.match(message, /keeps no records of runs/);
    for (const [event, response] of [
      ['begin', { workflowId, watchUrl: 'none. This server keeps no records of runs' }],
      ['progress', { workflowId, message: 'This server keeps no records of runs' }],
      ['heartbeat', { workflowId, message: 'This server keeps no records of runs' }],
      ['complete', { workflowId, message: 'This server keeps no records of runs' }],
    ] as const) {
      // Reports of a run may have any length.
      const body = { text: 'x'.repeat(event === 'progress' ? 400_000 : 10) };
      const path = `/trace/${workflowId}/${event}?workspaceId=${workspace.id}`;
      const reply = await server.ask('PUT', path, authorization, body);
      assert.deepEqual([reply.status, jsonOf(reply)], [200, response], event);
    }
    assertApiFault(await server.ask('POST', '/trace/create', administrator), 403, /access token/);
  });

  test('is used for an address that clients always send, if the operator has set it', async () => {
    const ada = await makeUser();
    const ask = (towerAccessToken: string) =>
      call(`${server.sluice.url}/v1alpha2/container`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          containerImage: '',
          towerEndpoint: 'https://api.cloud.seqera.io',
          towerAccessToken,
        }),
      });
    assertApiFault(await ask('hunter2'), 403, /access token is invalid/);
    // The sender is known, so the next check follows.
    assertApiFault(await ask(ada.accessToken), 400, /'containerImage'/);
  });

  test('accepts a valid token: 401 without one, 403 with a wrong, expired or revoked one', async () => {
    const ada = await makeUser();
    for (const header of [undefined, 'Digest x', 'Bearer', 'Bearer a b']) {
      const reply = await server.ask('GET', '/user-info', header);
      assertApiFault(reply, 401, /access token: send it as Authorization: Bearer/);
      assert.match(String(reply.headers['www-authenticate']), /^Bearer/);
    }
    const refused = async (authorization: string) =>
      assertApiFault(
        await server.ask('GET', '/user-info', authorization),
        403,
        /invalid, was revoked or has expired/,
      );
    await refused('Bearer sluice_0000');
    await refused(`${ada.authorization}0`);

    const expiration = new Date(Date.now() + 4500).toISOString();
    const short = await server.must<{ accessKey: string; token: { expiration: string } }>(
      'POST',
      '/tokens',
      { name: 'short', expiration },
      ada.authorization,
    );
    assert.equal(short.token.expiration, `${expiration.slice(0, 19)}Z`);
    const header = `Bearer ${short.accessKey}`;
    const early = await server.ask('GET', '/user-info', header);
    // On a machine that stood still, it has expired already.
    if (Date.now() < Date.parse(short.token.expiration)) assert.equal(early.status, 200);
    await sleep(Math.max(0, Date.parse(expiration) - Date.now()));
    await refused(header);

    const { accessKey, token } = await server.must<{ accessKey: string; token: { id: number } }>(
      'POST',
      '/tokens',
      { name: 'revoked' },
      ada.authorization,
    );
    const revoked = `Bearer ${accessKey}`;
    assert.equal((await server.ask('GET', '/user-info', revoked)).status, 200);
    const gone = await server.ask('DELETE', `/tokens/${token.id}`, ada.authorization);
    assert.equal(gone.status, 204);
    assert.equal(gone.body.length, 0);
    await refused(revoked);
  });

  test('an unknown entry point is 403, with a token and without', async () => {
    const ada = await makeUser();
    for (const authorization of [undefined, ada.authorization, administrator]) {
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/'],
        ['GET', '/user-inf'],
        ['GET', '/credentials/x/keys/y'],
        ['GET', '/credentials//keys'],
        ['PUT', '/tokens'],
        ['DELETE', '/tokens'],
        ['GET', '/api/api/user-info'],
      ] as const) {
        const reply = await server.ask(method, path, authorization);
        assertApiFault(reply, 403, /No such entry point: GET \/platform\/openapi\.json/);
      }
    }
    const beside = await call(`${server.sluice.url}/platformer`);
    assert.equal(beside.status, 404, 'what is not below /platform has nothing to do with it');
  });

  test('Accept-Version: 1 is the only version, and the default', async () => {
    const asked = (version: string) =>
      call(`${server.sluice.url}/platform/service-info`, {
        headers: { 'accept-version': version },
      });
    const info = await asked('1');
    assert.equal(info.status, 200);
    const { serviceInfo } = jsonOf(info);
    assert.equal(serviceInfo.apiVersion, '1');
    assert.equal(typeof serviceInfo.version, 'string');
    for (const version of ['2', '0', '1.1', 'x']) {
      assertApiFault(await asked(version), 400, /version of the API does not exist: .* send 1/);
    }
  });

  test('invalid payloads and parameters are 400, and the message names them', async () => {
    const { authorization } = await makeUser();
    const bodies: readonly [string, unknown, RegExp][] = [
      ['/tokens', '{', /not valid JSON/],
      ['/tokens', '', /body is empty/],
      ['/tokens', [], /The body:/],
      ['/tokens', {}, /'name'/],
      ['/tokens', { name: 1 }, /'name'/],
      ['/tokens', { name: 'x', expiration: 'tomorrow' }, /'expiration'.*ISO 8601/],
      ['/tokens', { name: 'x', expiration: '2001-01-01T00:00:00Z' }, /expire in the future/],
      ['/credentials', { credentials: { keys: { userName: 'a' } } }, /'password' are required/],
      ['/credentials', { credentials: { keys: { userName: 'a', password: 1 } } }, /keys\.password/],
      ['/credentials', { credentials: {} }, /'credentials\.keys'/],
      ['/credentials', { credentials: { provider: 'ssh', keys: {} } }, /provider is unknown/],
      [
        '/credentials',
        { workspaceId: 'x', credentials: { keys: {} } },
        /'workspaceId': expected a whole number/,
      ],
    ];
    for (const [path, body, message] of bodies) {
      assertApiFault(await server.ask('POST', path, authorization, body), 400, message);
    }
    const ada = await makeUser();
    for (const [query, message] of [
      ['max=0', /'max'/],
      ['max=1001', /'max'/],
      ['max=x', /'max': expected a whole number/],
      ['offset=-1', /'offset'/],
      ['workspaceId=1x', /'workspaceId'/],
    ] as const) {
      const reply = await server.ask('GET', `/credentials?${query}`, ada.authorization);
      assertApiFault(reply, 400, message);
    }
    const id = await server.ask('DELETE', '/tokens/x', ada.authorization);
    assertApiFault(id, 400, /'x' in the path must be a number/);
    const large = await server.ask('POST', '/tokens', ada.authorization, 'x'.repeat(300_000));
    assertApiFault(large, 413, /larger than/);
    const form = await call(`${server.sluice.url}/platform/tokens`, {
      method: 'POST',
      headers: {
        authorization: ada.authorization,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: 'name=x',
    });
    assertApiFault(form, 415, /must be JSON/);
  });

  test('a parameter without a value is ignored', async () => {
    const ada = await makeUser();
    const reply = await server.ask('GET', '/credentials?workspaceId=&max=', ada.authorization);
    assert.equal(reply.status, 200);
  });

  test('too many calls get 429 with Retry-After, for this token only', async () => {
    const ada = await makeUser();
    const { authorization } = await server.makeUser('busy@example.org');
    const replies = await Promise.all(
      Array.from({ length: 100 }, () => server.ask('GET', '/user-info', authorization)),
    );
    const refused = replies.filter(({ status }) => status === 429);
    const passed = replies.filter(({ status }) => status === 200);
    assert.equal(refused.length + passed.length, 100);
    assert.ok(passed.length >= 20, `${passed.length} passed`);
    assert.ok(refused.length > 0);
    for (const reply of refused) {
      assertApiFault(reply, 429, /limit of 20 calls .* per second .* more time between calls/);
      assert.equal(reply.headers['retry-after'], '1');
    }
    assert.equal((await server.ask('GET', '/user-info', ada.authorization)).status, 200);
    await sleep(1000);
    assert.equal((await server.ask('GET', '/user-info', authorization)).status, 200);
  });

  test('administration requires an account that administers the server', async () => {
    const ada = await makeUser();
    for (const [method, path, body] of [
      ['GET', '/users'],
      ['POST', '/users', { email: 'eve@example.org' }],
      ['DELETE', `/users/${ada.id}`],
      ['POST', '/workspaces', { name: 'x' }],
      ['DELETE', '/workspaces/1'],
      ['GET', '/workspaces/1/members'],
      ['POST', '/workspaces/1/members', { user: ada.email }],
      ['DELETE', '/workspaces/1/members/1'],
    ] as const) {
      const [by, wrong, limited, nobody] = await Promise.all([
        server.ask(method, path, ada.authorization, body),
        server.ask(method, path, basic('admin', 'wrong'), body),
        server.ask(method, path, basic('ci', 'word'), body),
        server.ask(method, path, undefined, body),
      ]);
      assertApiFault(by, 403, /administrator's account/);
      assertApiFault(wrong, 401, /name and password of an account/);
      assertApiFault(limited, 403, /rights to hosted repositories only/);
      assertApiFault(nobody, 401, /access token/);
    }
    for (const path of ['/user-info', '/credentials/x/keys']) {
      const reply = await server.ask('GET', path, administrator);
      assertApiFault(reply, 403, /requires the access token of a user/);
    }
  });

  test('a duplicate is 409, a missing entry 404', async () => {
    const { email } = await makeUser();
    const twice = await server.ask('POST', '/users', administrator, {
      email: email.toUpperCase(),
    });
    assertApiFault(twice, 409, /The user ada\d+@example\.org already exists/);
    for (const path of ['/users/999', '/workspaces/999', '/tokens/999', '/credentials/999']) {
      assertApiFault(await server.ask('DELETE', path, administrator), 404, /do(es)? not exist/);
    }
    const owner = { user: 'nobody@example.org', name: 'x' };
    const token = await server.ask('POST', '/tokens', administrator, owner);
    assertApiFault(token, 404, /user nobody@example\.org does not exist/);
  });

  test('the description matches the stored one, and its references resolve', async () => {
    const api = jsonOf(await server.ask('GET', '/openapi.json'));
    const kept = new URL('../../../docs/platform-openapi.json', import.meta.url);
    assert.deepEqual(JSON.parse(readFileSync(kept, 'utf8')), api);
    const references = JSON.stringify(api).matchAll(/"#\/components\/schemas\/(\w+)"/g);
    for (const [, name = ''] of references) assert.ok(api.components.schemas[name], name);
    const operations = Object.entries(api.paths as Record<string, object>).flatMap(
      ([path, methods]) => Object.keys(methods).map(method => ({ method, path })),
    );
    assert.ok(operations.length >= 18, String(operations.length));
    for (const { method, path } of operations) {
      const reply = await server.ask(method.toUpperCase(), path.replace(/\{\w+\}/g, '0'));
      assert.ok(reply.status === 401 || reply.status === 200, `${method} ${path}: ${reply.status}`);
    }
  });
});
