import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Grant } from '../../src/platform/workflow-platform.ts';
import { isFault, makePlatformWorld } from './platform-world.ts';
import { type ScriptedPlatform, send, startScriptedPlatform } from './scripted-platform.ts';

const alice = { id: 7, userName: 'alice', email: 'alice@lab.example' };
const token = 'token-of-alice';

async function start(settings: Parameters<typeof makePlatformWorld>[0] = {}) {
  const stack = new AsyncDisposableStack();
  const scripted = stack.use(await startScriptedPlatform());
  scripted.users.set(token, alice);
  scripted.credentials.set('7', []);
  const world = stack.use(await makePlatformWorld({ url: scripted.url, ...settings }));
  const grant: Grant = { endpoint: scripted.url, accessToken: token };
  return {
    scripted,
    world,
    grant,
    platform: world.platform,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Answers with status 200 that are invalid. */
const oddResponses: ReadonlyArray<Parameters<ScriptedPlatform['on']>[1]> = [
  (_, response) => response.end('<!doctype html>'),
  (_, response) => send(response, 200, { user: null }),
  (_, response) => send(response, 200, [1]),
  (_, response) => send(response, 204, undefined),
  (_, response) => send(response, 404, { message: 'nothing here' }),
];

test('the user of a token is requested in the form of the platform', async () => {
  await using at = await start();
  assert.deepEqual(await at.platform.user(at.grant), {
    id: '7',
    userName: 'alice',
    email: 'alice@lab.example',
  });
  const [call] = at.scripted.calls;
  assert.equal(call?.path, '/api/user-info');
  assert.equal(call?.headers.authorization, `Bearer ${token}`);
  assert.equal(call?.headers['accept-version'], '1');
  assert.equal(call?.headers.accept, 'application/json');
});

test('the preference of a user for e-mails is read, and a value of a later version is none', async () => {
  for (const [value, expected] of [
    ['ALWAYS_ON', 'always'],
    ['ON_ERROR', 'errors'],
    ['ALWAYS_OFF', 'never'],
    ['WEEKLY', undefined],
    [null, undefined],
    [{ a: 1 }, undefined],
  ]) {
    await using at = await start();
    at.scripted.on('/user-info', (_, response) =>
      send(response, 200, { user: { ...alice, waveBuildNotification: value } }),
    );
    assert.equal((await at.platform.user(at.grant)).buildMail, expected);
  }
});

test('credentials are those of the user or of the workspace', async () => {
  await using at = await start();
  at.scripted.credentials.set('7', [
    { id: 'a1', name: 'mine', provider: 'container-reg', keys: { registry: 'quay.io' }, extra: 1 },
  ]);
  at.scripted.credentials.set('7/42', [
    {
      id: 'w1',
      name: 'ours',
      provider: 'container-reg',
      registry: 'docker.io/lab',
      description: 'd',
    },
    { id: 'w2', provider: 'aws', keys: {} },
  ]);
  assert.deepEqual(await at.platform.credentials(at.grant), [
    {
      id: 'a1',
      name: 'mine',
      provider: 'container-reg',
      registry: 'quay.io',
    },
  ]);
  assert.deepEqual(await at.platform.credentials(at.grant, '42'), [
    {
      id: 'w1',
      name: 'ours',
      provider: 'container-reg',
      registry: 'docker.io/lab',
      description: 'd',
    },
    { id: 'w2', name: 'w2', provider: 'aws', registry: undefined },
  ]);
});

test('a list in pages is read to its end, and an endless one is abandoned', async () => {
  await using at = await start();
  const all = Array.from({ length: 25 }, (_, number) => ({ id: `c${number}` }));
  at.scripted.on('GET /api/credentials', ({ query }, response) => {
    const offset = Number(query.get('offset') ?? 0);
    const page = all.slice(offset, offset + Number(query.get('max') ?? 10));
    send(response, 200, { credentials: page, totalSize: all.length });
  });
  const found = await at.platform.credentials(at.grant, '1');
  assert.deepEqual(
    found.map(({ id }) => id),
    all.map(({ id }) => id),
  );
  assert.equal(at.scripted.count('/credentials'), 3);
  const pages = at.scripted.calls.filter(({ path }) => path.includes('/credentials'));
  assert.ok(pages.every(({ query }) => query.get('workspaceId') === '1'));

  at.scripted.on('GET /api/credentials', (_, response) =>
    send(response, 200, { credentials: all.slice(0, 5), totalSize: 25 }),
  );
  assert.equal((await at.platform.credentials(at.grant, '2')).length, 5);
});

test('keys are unencrypted from a platform that is not paired', async () => {
  await using at = await start();
  at.scripted.keys.set('a1', {
    discriminator: 'container-reg',
    userName: 'robot',
    password: 'pw',
    registry: 'quay.io',
  });
  at.scripted.keys.set('a2', JSON.stringify({ discriminator: 'container-reg', password: 'pw' }));
  at.scripted.keys.set('a3', { discriminator: 'k8s', certificate: 'x' });
  at.scripted.keys.set('a4', '1\\P\\aaaa\\bbbb');
  assert.deepEqual(await at.platform.keys(at.grant, 'a1', '42'), {
    kind: 'container-reg',
    username: 'robot',
    password: 'pw',
    registry: 'quay.io',
  });
  const asked = at.scripted.calls.at(-1);
  assert.equal(asked?.path, '/api/credentials/a1/keys');
  assert.deepEqual([...(asked?.query ?? [])], [['workspaceId', '42']]);
  assert.equal((await at.platform.keys(at.grant, 'a2')).kind, 'container-reg');
  assert.deepEqual(await at.platform.keys(at.grant, 'a3'), { kind: 'other', discriminator: 'k8s' });
  await assert.rejects(
    at.platform.keys(at.grant, 'a4'),
    isFault('upstream-unusable', /pair/, token),
  );
});

test('an invalid id never becomes part of an address', async () => {
  await using at = await start();
  for (const id of ['', '..', '../user-info', 'a/b', 'a?b', 'a%2fb', 'x'.repeat(200)]) {
    await assert.rejects(
      at.platform.keys(at.grant, id),
      isFault('not-found', /credentials .* do not exist/),
      id,
    );
  }
  assert.equal(at.scripted.calls.length, 0);
});

test('answers are cached for each token and workspace, and identical questions are asked once', async () => {
  await using at = await start();
  at.scripted.users.set('token-of-bob', { id: 8, userName: 'bob', email: null });
  at.scripted.credentials.set('8', []);
  at.scripted.credentials.set('7/1', []);
  const bob = { ...at.grant, accessToken: 'token-of-bob' };
  await Promise.all(Array.from({ length: 30 }, () => at.platform.user(at.grant)));
  await Promise.all(Array.from({ length: 30 }, () => at.platform.credentials(at.grant)));
  assert.equal(at.scripted.calls.length, 2);
  assert.equal((await at.platform.user(bob)).email, undefined);
  await at.platform.credentials(bob);
  await at.platform.credentials(at.grant, '1');
  assert.equal(at.scripted.calls.length, 5);
  // Another spelling of the address is no other platform.
  await at.platform.user({ ...at.grant, endpoint: at.scripted.url.replace(/\/api$/, '/') });
  await at.platform.user({ ...at.grant, endpoint: '' });
  assert.equal(at.scripted.calls.length, 5);
});

test('a wrong token is refused, with a sentence and without the token', async () => {
  await using at = await start();
  for (const accessToken of ['wrong-token', 'two words', 'line\nbreak', '', 'x'.repeat(9000)]) {
    const grant = { ...at.grant, accessToken };
    const refusal = isFault(
      'denied',
      /127\.0\.0\.1:\d+ refused the access token/,
      accessToken || token,
    );
    await assert.rejects(at.platform.user(grant), refusal);
    await assert.rejects(at.platform.credentials(grant), refusal);
    await assert.rejects(at.platform.keys(grant, 'a1'), refusal);
  }
  const endless = { ...at.grant, refreshToken: 'x'.repeat(9000) };
  await assert.rejects(at.platform.user(endless), isFault('denied', /refused the access token/));
  assert.ok(at.scripted.calls.every(call => call.token === 'wrong-token'));
});

test('a revoked token ends everything that was cached for it', async () => {
  await using at = await start();
  at.scripted.keys.set('a1', { discriminator: 'container-reg', password: 'pw' });
  await at.platform.user(at.grant);
  await at.platform.keys(at.grant, 'a1');
  at.scripted.users.delete(token);
  await assert.rejects(
    at.platform.credentials(at.grant),
    isFault('denied', /refused the access token/),
  );
  await assert.rejects(at.platform.user(at.grant), isFault('denied', /refused the access token/));
  await assert.rejects(
    at.platform.keys(at.grant, 'a1'),
    isFault('denied', /refused the access token/),
  );
});

test('a token without one right is still valid for others', async () => {
  await using at = await start();
  at.scripted.keys.set('a1', { discriminator: 'container-reg', password: 'pw' });
  const refusal = isFault('denied', /does not let this token read/);
  await assert.rejects(at.platform.keys(at.grant, 'a2'), refusal);
  await assert.rejects(at.platform.credentials(at.grant, '13'), refusal);
  assert.equal((await at.platform.user(at.grant)).id, '7');
  assert.equal((await at.platform.keys(at.grant, 'a1')).kind, 'container-reg');
  // Nor is it asked again and again.
  const before = at.scripted.count('/a2/');
  for (let again = 0; again < 10; again += 1) {
    await assert.rejects(at.platform.keys(at.grant, 'a2'), refusal);
  }
  assert.equal(at.scripted.count('/a2/'), before);
});

test('failures of the platform are distinguished', async () => {
  await using at = await start();
  const cases: ReadonlyArray<readonly [number, string, RegExp]> = [
    [400, 'bad-request', /refused the request \(400\): workspace \*\*\* is odd Error ID: 1$/],
    [302, 'upstream-unusable', /redirects to another address/],
    [412, 'upstream', /failed \(412\)/],
  ];
  for (const [status, kind, message] of cases) {
    at.scripted.on('/user-info', (_, response) =>
      send(
        response,
        status,
        { message: `workspace ${token} is\nodd Error ID: 1` },
        { location: 'http://127.0.0.1:1/' },
      ),
    );
    await assert.rejects(at.platform.user(at.grant), isFault(kind, message, token));
  }
  for (const respond of oddResponses) {
    at.scripted.on('/user-info', respond);
    await assert.rejects(
      at.platform.user(at.grant),
      isFault('upstream-unusable', /check that the address/, token),
    );
  }
});

test('a platform that does not answer, or stops answering, times out', async () => {
  await using at = await start({ timeout: 300 });
  const isLate = isFault('upstream-timeout', /in time/, token);
  at.scripted.on('/user-info', () => {});
  await assert.rejects(at.platform.user(at.grant), isLate);
  at.scripted.on('/user-info', (_, response) => response.writeHead(200).write('{'));
  await assert.rejects(at.platform.user(at.grant), isLate);
});

test('an unavailable platform is reported as such', async () => {
  await using world = await makePlatformWorld({ url: 'http://127.0.0.1:1/api' });
  const grant = { endpoint: '', accessToken: token };
  await assert.rejects(
    world.platform.user(grant),
    isFault('unavailable', /127\.0\.0\.1:1 refused the connection/, token),
  );
});

test('temporary failures are retried', async () => {
  await using at = await start();
  let fails = 0;
  at.scripted.on('/user-info', ({ token: shown }, response) => {
    fails += 1;
    if (fails === 1) return send(response, 503, undefined);
    if (fails === 2) return send(response, 429, undefined, { 'retry-after': '1' });
    if (fails === 3) return response.destroy();
    send(response, 200, { user: at.scripted.users.get(shown) });
  });
  assert.equal((await at.platform.user(at.grant)).userName, 'alice');
  assert.equal(fails, 4);
  at.scripted.on('/user-info', (_, response) =>
    send(response, 429, undefined, { 'retry-after': '90' }),
  );
  await assert.rejects(
    at.platform.user({ ...at.grant, accessToken: 'busy' }),
    error =>
      isFault('unavailable', /too busy/)(error) &&
      (error as { retryAfterSeconds?: number }).retryAfterSeconds === 90,
  );
});

test('only allowed platforms receive a token', async () => {
  await using at = await start();
  await using other = await startScriptedPlatform();
  other.users.set(token, alice);
  const grant = { ...at.grant, endpoint: other.url };
  const refusal = isFault('bad-request', /platform\.allow/, token);
  await assert.rejects(at.platform.user(grant), refusal);
  await assert.rejects(at.platform.credentials(grant), refusal);
  await assert.rejects(at.platform.keys(grant, 'a1'), refusal);
  at.scripted.on('/user-info', (_, response) =>
    send(response, 307, undefined, { location: `${other.url}/user-info` }),
  );
  await assert.rejects(at.platform.user(at.grant), isFault('upstream-unusable', /redirects/));
  assert.deepEqual(other.calls, []);

  await using allowing = await makePlatformWorld({ allow: [other.url] });
  assert.equal((await allowing.platform.user(grant)).userName, 'alice');
});

test('the built-in platform answers for its own address, and without one', async () => {
  const user = { id: '1', userName: 'own', email: undefined };
  const unasked = () => assert.fail();
  const own = { user: async () => user, credentials: unasked, keys: unasked, run: unasked };
  await using world = await makePlatformWorld({}, own);
  for (const endpoint of [
    '',
    'http://127.0.0.1:9090/platform',
    'http://127.0.0.1:9090/platform/api/',
  ]) {
    assert.equal(await world.platform.user({ endpoint, accessToken: token }), user, endpoint);
  }
});
