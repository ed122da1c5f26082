import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isFault, makePlatformWorld } from './platform-world.ts';
import { type SeenCall, send, startScriptedPlatform } from './scripted-platform.ts';

/** Returns the most calls of one token within any span of the given time, as the platform received them. */
function mostWithin(calls: readonly SeenCall[], ms: number): number {
  const tokens = Map.groupBy(calls, ({ token }) => token);
  const most = [...tokens.values()].flatMap(own =>
    own.map(({ at }) => own.filter(other => other.at >= at && other.at < at + ms).length),
  );
  return Math.max(...most);
}

test('1,000 requests of a few users and workspaces make few calls, and none fails', async () => {
  await using scripted = await startScriptedPlatform();
  await using world = await makePlatformWorld({ url: scripted.url });
  const people = 5;
  const workspaces = 4;
  for (let person = 0; person < people; person += 1) {
    scripted.users.set(`token-${person}`, { id: person, userName: `u${person}`, email: null });
    for (let workspace = 0; workspace < workspaces; workspace += 1) {
      const own = { id: `c${person}x${workspace}`, provider: 'container-reg', registry: 'quay.io' };
      scripted.credentials.set(`${person}/${workspace}`, [own]);
      const secret = { userName: `${person}/${workspace}`, password: 'pw', registry: 'quay.io' };
      scripted.keys.set(own.id, { discriminator: 'container-reg', ...secret });
    }
  }
  const responses = await Promise.all(
    Array.from({ length: 1000 }, async (_, number) => {
      await sleep(Math.random() * 1000);
      const person = number % people;
      const workspace = String(number % workspaces);
      const grant = { endpoint: '', accessToken: `token-${person}` };
      const user = await world.platform.user(grant);
      const found = await world.client.selection.find(grant, workspace, 'quay.io', 'team/app');
      assert.equal(user.id, String(person));
      assert.deepEqual(found?.credentials, {
        kind: 'password',
        username: `${person}/${workspace}`,
        password: 'pw',
      });
      return found;
    }),
  );
  assert.equal(responses.length, 1000);
  assert.equal(scripted.calls.length, people * (1 + 2 * workspaces));
});

test('one token never makes more calls than the platform allows, and calls wait instead of failing', async () => {
  await using scripted = await startScriptedPlatform();
  await using world = await makePlatformWorld({ url: scripted.url });
  scripted.users.set('token', { id: 1, userName: 'u', email: null });
  scripted.users.set('other', { id: 2, userName: 'o', email: null });
  scripted.credentials.set('2', []);
  scripted.on('GET /api/credentials', (_, response) => send(response, 200, { credentials: [] }));
  const grant = { endpoint: '', accessToken: 'token' };
  const begun = performance.now();
  const asked = Array.from({ length: 70 }, (_, workspace) =>
    world.platform.credentials(grant, String(workspace)),
  );
  await world.platform.credentials({ endpoint: '', accessToken: 'other' });
  const before = scripted.calls.findIndex(call => call.token === 'other');
  assert.ok(before < 60, `another token has its own queue: ${before} calls came first`);
  await Promise.all(asked);
  assert.equal(scripted.count('/credentials'), 71, 'no call was made twice');
  // Much shorter than a second, because a busy machine may have been late to see the first ones.
  assert.ok(mostWithin(scripted.calls, 400) <= 20);
  assert.ok(performance.now() - begun >= 2900, 'they took their time');
});

test('the hour has a limit too, and a wait that is too long is reported at once', async () => {
  await using scripted = await startScriptedPlatform();
  await using world = await makePlatformWorld({
    url: scripted.url,
    // One asks for the user, whose token may have limits.
    callsPerHour: 31,
    callsPerSecond: 100,
  });
  scripted.users.set('token', { id: 1, userName: 'u', email: null });
  scripted.on('GET /api/credentials', (_, response) => send(response, 200, { credentials: [] }));
  const grant = { endpoint: '', accessToken: 'token' };
  for (let workspace = 0; workspace < 30; workspace += 1) {
    await world.platform.credentials(grant, String(workspace));
  }
  await assert.rejects(
    world.platform.credentials(grant, '30'),
    error =>
      isFault('too-many-requests', /try again/)(error) &&
      Number((error as { retryAfterSeconds?: number }).retryAfterSeconds) > 3500,
  );
  assert.equal(scripted.calls.length, 31);
});
