import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { Grant } from '../../src/platform/workflow-platform.ts';
import { createTokenPairStore } from '../../src/storage/rows/people/platform-rows.ts';
import { isFault, makePlatformWorld } from './platform-world.ts';
import {
  type Script,
  type ScriptedPlatform,
  send,
  startScriptedPlatform,
} from './scripted-platform.ts';

const alice = { id: 7, userName: 'alice', email: 'alice@lab.example' };
const secrets = ['expired-access', 'first-refresh', 'second-access', 'second-refresh'];

/** A platform whose access tokens have expired, and one refresh of which is answered as the script says. */
async function start(refresh: Script, settings: Parameters<typeof makePlatformWorld>[0] = {}) {
  const stack = new AsyncDisposableStack();
  const scripted = stack.use(await startScriptedPlatform());
  scripted.credentials.set('7', []);
  scripted.on('POST /api/oauth/access_token', refresh);
  const world = stack.use(await makePlatformWorld({ url: scripted.url, ...settings }));
  const grant: Grant = {
    endpoint: scripted.url,
    accessToken: 'expired-access',
    refreshToken: 'first-refresh',
  };
  return {
    scripted,
    world,
    grant,
    platform: world.platform,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Issues `second-access` once for `first-refresh`, as real platforms do. */
const withCookies =
  (users: () => ScriptedPlatform['users']): Script =>
  ({ body, headers }, response) => {
    assert.equal(headers['content-type'], 'application/x-www-form-urlencoded');
    assert.equal(headers.authorization, undefined);
    const form = new URLSearchParams(body);
    assert.equal(form.get('grant_type'), 'refresh_token');
    if (form.get('refresh_token') !== 'first-refresh') return send(response, 401, undefined);
    users().set('second-access', alice);
    send(response, 204, undefined, {
      'set-cookie': [
        'SESSION=1; Path=/',
        'JWT=second-access; Expires=Wed, 21 Oct 2037 07:28:00 GMT; Path=/; HttpOnly',
        'JWT_REFRESH_TOKEN=second-refresh; Path=/oauth; HttpOnly',
      ],
    });
  };

test('an expired token is renewed once for all waiting callers', async () => {
  await using at = await start((call, response) =>
    withCookies(() => at.scripted.users)(call, response),
  );
  const responses = await Promise.all([
    ...Array.from({ length: 10 }, () => at.platform.user(at.grant)),
    ...Array.from({ length: 5 }, () => at.platform.credentials(at.grant)),
    ...Array.from({ length: 5 }, () => at.platform.credentials({ ...at.grant, endpoint: '' })),
  ]);
  assert.equal(responses.length, 20);
  assert.equal(at.scripted.count('POST /api/oauth/access_token'), 1);
  assert.equal((await at.platform.user(at.grant)).userName, 'alice');
});

test('401 and 403 both mean an expired token', async () => {
  await using at = await start((call, response) =>
    withCookies(() => at.scripted.users)(call, response),
  );
  at.scripted.on('GET /api/user-info', ({ token }, response) =>
    token === 'second-access'
      ? send(response, 200, { user: alice })
      : send(response, 401, { message: 'Unauthorized' }),
  );
  assert.equal((await at.platform.user(at.grant)).id, '7');
});

test('the tokens may be in the body, and the old refresh token may stay valid', async () => {
  await using at = await start((_, response) => {
    at.scripted.users.set('second-access', alice);
    send(response, 200, { access_token: 'second-access', token_type: 'bearer' });
  });
  assert.equal((await at.platform.user(at.grant)).id, '7');
  at.scripted.users.delete('second-access');
  at.scripted.on('POST /api/oauth/access_token', ({ body }, response) => {
    assert.equal(new URLSearchParams(body).get('refresh_token'), 'first-refresh');
    at.scripted.users.set('third-access', alice);
    send(response, 200, { access_token: 'third-access', refresh_token: 'third-refresh' });
  });
  assert.deepEqual(await at.platform.credentials(at.grant), []);
  assert.equal(at.scripted.count('POST /api/oauth/access_token'), 2);
});

test('a request with the old tokens uses the new ones, if it has the refresh token', async () => {
  await using at = await start((call, response) =>
    withCookies(() => at.scripted.users)(call, response),
  );
  await at.platform.user(at.grant);
  await at.platform.credentials({ ...at.grant });
  assert.equal(at.scripted.calls.at(-1)?.token, 'second-access');
  assert.equal(at.scripted.count('POST'), 1);
  const refusal = isFault('denied', /refused the access token|did not renew/, ...secrets);
  const { endpoint, accessToken } = at.grant;
  await assert.rejects(at.platform.user({ endpoint, accessToken }), refusal);
  await assert.rejects(
    at.platform.user({ endpoint, accessToken, refreshToken: 'guessed' }),
    refusal,
  );
});

test('a refused refresh token is reported, without the tokens', async () => {
  for (const status of [400, 401, 403]) {
    await using at = await start((_, response) =>
      send(response, status, { message: 'first-refresh is no good' }),
    );
    await assert.rejects(
      at.platform.user(at.grant),
      isFault(
        'denied',
        new RegExp(`did not renew the expired access token \\(${status}\\)`),
        ...secrets,
      ),
    );
  }
});

test('a renewal without new tokens is a failure of the platform', async () => {
  await using at = await start((_, response) => send(response, 200, {}));
  await assert.rejects(
    at.platform.user(at.grant),
    isFault('upstream', /did not return the new one/, ...secrets),
  );
});

test('a renewed token that is refused at once is not renewed again', async () => {
  await using at = await start((_, response) => send(response, 200, { access_token: 'useless' }));
  await assert.rejects(at.platform.user(at.grant), isFault('denied', /refused/, ...secrets));
  assert.equal(at.scripted.count('POST'), 1);
});

test('a missing right renews nothing', async () => {
  await using at = await start(() => assert.fail('renewed'));
  at.scripted.users.set('expired-access', alice);
  await assert.rejects(
    at.platform.keys(at.grant, 'a1'),
    isFault('denied', /does not let this token/),
  );
  assert.equal(at.scripted.count('POST'), 0);
});

test('no log line and no file contains a token', async () => {
  await using at = await start((call, response) =>
    withCookies(() => at.scripted.users)(call, response),
  );
  await at.platform.user(at.grant);
  assert.ok(
    (await createTokenPairStore(at.world.database).purge(Date.now() + 1)) === 1,
    'a pair was kept',
  );
  await at.platform.credentials({ ...at.grant, refreshToken: 'wrong-refresh' }).catch(() => {});
  at.world.database.pragma('wal_checkpoint(PASSIVE)');
  const names = await readdir(at.world.directory.path);
  assert.ok(names.includes('sluice.db') && names.includes('sluice.db-wal'));
  const files = await Promise.all(
    names.map(name => readFile(at.world.directory.join(name), 'latin1')),
  );
  const written = files.join('') + at.world.logged();
  for (const secret of [...secrets, 'wrong-refresh']) {
    assert.equal(written.includes(secret), false, secret);
    assert.equal(
      written.includes(Buffer.from(secret).toString('base64').slice(0, -4)),
      false,
      secret,
    );
  }
});
