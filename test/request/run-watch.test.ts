/** The runs that names end with are asked about: within bounds, with the caller's token, and whatever a platform answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import type { SealedGrant } from '../../src/platform/index.ts';
import { listLiveNames } from '../../src/request/tokens/live-names.ts';
import { createRunWatch, type RunCheckResult } from '../../src/request/tokens/run-watch.ts';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';
import { createRunStore } from '../../src/storage/rows/images/run-rows.ts';
import { isFault, makePlatformWorld } from '../platform/platform-world.ts';
import { send, startScriptedPlatform } from '../platform/scripted-platform.ts';

const hourMs = 3_600_000;
const leaseMs = hourMs;
const maxLifeMs = 24 * hourMs;
const unlimited = { async admitRequest() {} };
const { signal } = new AbortController();

/** A registry and a watch on one database, with a clock that the test moves. */
function start(statusOf: (grant: SealedGrant, id: string) => Promise<string>) {
  const database = openDatabase(':memory:');
  const clock = { now: 1_700_000_000_000, isSteady: true };
  const results: RunCheckResult[] = [];
  const now = () => clock.now;
  const open = () =>
    createTokenRegistry(createRequestStore(database), 2 * hourMs, unlimited, {
      now,
      maxLifeMs,
      runLeaseMs: leaseMs,
    });
  const watch = createRunWatch({
    runs: createRunStore(database),
    statusOf,
    maxLifeMs,
    runLeaseMs: leaseMs,
    note: result => void results.push(result),
    isSteady: async () => clock.isSteady,
    now,
  });
  const registry = open();
  const issue = (id: string, platform = 'a.example.com', grant = 'grant') =>
    registry.issue(token => ({
      caller: { address: '192.0.2.1', grant: grant as SealedGrant },
      run: { key: Buffer.from(`${platform} ${id}`).toString('hex'), platform, id },
      image: { registry: 'docker.io', repository: 'library/alpine', tag: 'latest' },
      fixed: {
        base: { mediaType: 'm', digest: digestOf('base') },
        served: { mediaType: 'm', digest: digestOf('served') },
      },
      change: {},
      targetImage: `sluice.example.com/ct/${token}/library/alpine:latest`,
      isMounted: false,
    }));
  const round = async (platform = 'a.example.com') => {
    results.length = 0;
    await watch.round(platform, signal);
    return Object.fromEntries(
      [...Map.groupBy(results, result => result)].map(([result, all]) => [result, all.length]),
    );
  };
  /** Another registry has nothing in memory. */
  const isLive = (token: string) =>
    open()
      .get(token)
      .then(
        () => true,
        error => {
          assert.match(error.message, /ended at .* with the run|expired at|was revoked/);
          return false;
        },
      );
  return { database, clock, registry, issue, round, isLive, watch };
}

const refusal = (kind: 'denied' | 'not-found' | 'unavailable') => async () => {
  throw new Fault(kind, 'no', { phase: 'credentials' });
};

test('a name lives as long as its run, beyond the usual life and never beyond the maximum', async () => {
  let status = 'SUBMITTED';
  const at = start(async () => status);
  const { token, createdAt, expiresAt } = await at.issue('one');
  assert.equal(expiresAt - createdAt, maxLifeMs, 'the answer has the latest end');
  for (let passed = 0; passed < maxLifeMs - leaseMs; passed += leaseMs / 2) {
    assert.ok(await at.isLive(token), `after ${passed / hourMs} h`);
    at.clock.now += leaseMs / 2;
    assert.deepEqual(await at.round(), { active: 1 });
    status = 'RUNNING';
  }
  at.clock.now += 2 * leaseMs;
  assert.equal(await at.isLive(token), false);
  assert.deepEqual(await at.round(), { capped: 1 });
  assert.deepEqual(await at.round(), {});
});

test('a name in memory that was extended meanwhile is live', async () => {
  const at = start(async () => 'RUNNING');
  const { token } = await at.issue('one');
  assert.equal((await at.registry.get(token)).run?.id, 'one');
  at.clock.now += leaseMs / 2;
  await at.round();
  at.clock.now += leaseMs * 0.75;
  assert.equal((await at.registry.get(token)).token, token);
});

test('a name ends with its run', async () => {
  for (const status of ['SUCCEEDED', 'FAILED', 'CANCELLED']) {
    const at = start(async () => status);
    const { token } = await at.issue('one');
    at.clock.now += leaseMs / 2;
    assert.ok(await at.isLive(token));
    assert.deepEqual(await at.round(), { ended: 1 });
    assert.equal(await at.isLive(token), false, status);
    assert.equal((await at.registry.describe(token)).expiresAt, at.clock.now);
    await assert.rejects(at.registry.get(token), /with the run one, which a\.example\.com/);
  }
});

test('what a platform does not confirm is not extended, and lives again once it does', async () => {
  const answers: ReadonlyArray<readonly [() => Promise<string>, RunCheckResult]> = [
    [refusal('denied'), 'unconfirmed'],
    [refusal('not-found'), 'unconfirmed'],
    [async () => 'SOMETHING', 'unconfirmed'],
    [refusal('unavailable'), 'failed'],
    [() => Promise.reject(new Error('any')), 'failed'],
  ];
  for (const [answer, result] of answers) {
    let reply = answer;
    const at = start(() => reply());
    const { token } = await at.issue('one');
    at.clock.now += leaseMs / 2;
    assert.deepEqual(await at.round(), { [result]: 1 });
    assert.deepEqual(await at.round(), {}, 'it is not asked again at once');
    assert.ok(await at.isLive(token));
    at.clock.now += leaseMs;
    assert.equal(await at.isLive(token), false, result);
    if (result === 'failed') {
      // The platform was down for longer than the names live without it.
      reply = async () => 'RUNNING';
      assert.deepEqual(await at.round(), { active: 1 });
      assert.ok(await at.isLive(token));
    } else {
      assert.deepEqual(await at.round(), { ended: 1 });
      assert.deepEqual(await at.round(), {});
    }
  }
});

test('many names of one run are asked about once, with the newest token that still works', async () => {
  const asked: string[] = [];
  const at = start(async grant => {
    asked.push(grant);
    if (grant === 'new') throw new Fault('denied', 'revoked', { phase: 'credentials' });
    return 'RUNNING';
  });
  const tokens: string[] = [];
  for (let number = 0; number < 300; number += 1) {
    tokens.push((await at.issue('one', 'a.example.com', number < 299 ? 'old' : 'new')).token);
  }
  at.clock.now += leaseMs / 2;
  assert.deepEqual(await at.round(), { active: 1 });
  assert.deepEqual(asked, ['new', 'old']);
  at.clock.now += leaseMs * 0.75;
  assert.ok(await at.isLive(tokens[0] ?? ''));
  assert.ok(await at.isLive(tokens[299] ?? ''));
});

test('two thousand runs are asked about a few at a time, and another platform does not wait for a slow one', async () => {
  let active = 0;
  let most = 0;
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const at = start(async (_, id) => {
    if (id === 'slow') await held;
    active += 1;
    most = Math.max(most, active);
    await sleep(0);
    active -= 1;
    return 'RUNNING';
  });
  for (let number = 0; number < 2000; number += 1) await at.issue(`run-${number}`);
  for (let number = 0; number < 20; number += 1) await at.issue('slow', `s${number}.example.com`);
  at.clock.now += leaseMs / 2;
  const slow = at.round('s1.example.com');
  let rounds = 0;
  for (let sum = 0; sum < 2000; rounds += 1) sum += (await at.round()).active ?? 0;
  assert.equal(rounds, 8, '250 in a round');
  assert.ok(most <= 4, `${most} at once`);
  assert.deepEqual(await at.round(), {});
  release();
  await slow;
});

test('a platform that is down is asked a few times in a round, and about other runs in the next', async () => {
  const asked: string[] = [];
  const at = start(async (_, id) => {
    asked.push(id);
    throw new Fault('upstream-timeout', 'late', { phase: 'credentials' });
  });
  for (let number = 0; number < 30; number += 1) await at.issue(`run-${number}`);
  at.clock.now += leaseMs / 2;
  for (let rounds = 0; rounds < 3; rounds += 1) await at.round();
  assert.ok(asked.length <= 24, `${asked.length} questions`);
  assert.equal(new Set(asked).size, asked.length);
});

test('a clock that jumps ends nothing for good, and a date in the future does not hide a run', async () => {
  const at = start(async () => 'RUNNING');
  const { token } = await at.issue('one');
  const day = 24 * hourMs;
  at.clock.now += 30 * day;
  at.clock.isSteady = false;
  assert.deepEqual(await at.round(), { active: 1 });
  at.clock.now -= 30 * day;
  at.clock.isSteady = true;
  assert.deepEqual(await at.round(), { active: 1 });
  assert.ok(await at.isLive(token));
  assert.ok((await at.registry.describe(token)).expiresAt <= at.clock.now + leaseMs);
});

test('a new request confirms its run again; an extended name may outlive it, and never ends before it', async () => {
  let status = 'FAILED';
  const at = start(async () => status);
  const first = await at.issue('one');
  const kept = await at.issue('one');
  const id = await idOf(at, kept.token);
  at.clock.now += leaseMs / 2;
  const extension = await at.registry.extendById(id);
  assert.deepEqual(extension, { expiresAt: at.clock.now + 2 * hourMs, isLonger: true });
  assert.deepEqual(await at.registry.extendById(id, hourMs), { ...extension, isLonger: false });
  await at.round();
  assert.deepEqual([await at.isLive(first.token), await at.isLive(kept.token)], [false, true]);
  const { names } = await listLiveNames(
    createRequestStore(at.database),
    { isWanted: () => true, user: undefined, after: undefined },
    at.clock.now,
  );
  assert.deepEqual(
    names.map(({ id, expiresAt }) => ({ id, expiresAt })),
    [{ id, expiresAt: extension?.expiresAt }],
  );
  assert.equal(
    await at.registry.extendById(await idOf(at, first.token)),
    undefined,
    'it has ended',
  );

  status = 'RUNNING';
  const again = await at.issue('one');
  assert.ok(await at.isLive(again.token));
  at.clock.now += leaseMs / 2;
  assert.deepEqual(await at.round(), { active: 1 });
  assert.deepEqual(await at.registry.extendById(await idOf(at, again.token), 1), {
    expiresAt: at.clock.now + leaseMs,
    isLonger: false,
  });
  at.clock.now += leaseMs / 2;
  assert.deepEqual(await at.round(), { active: 1 });
  const { expiresAt } = await at.registry.describe(kept.token);
  assert.equal(expiresAt, Math.max(at.clock.now + leaseMs, extension?.expiresAt ?? 0));

  const longest = await at.registry.extendById(id, 1000 * hourMs);
  assert.equal(longest?.expiresAt, kept.createdAt + maxLifeMs);
  at.clock.now = kept.createdAt + maxLifeMs + 4 * 24 * hourMs;
  await at.watch.purge(signal);
  const left = at.database.prepare('SELECT COUNT(*) FROM runs').pluck().get();
  assert.equal(left, 0);
});

async function idOf({ database }: ReturnType<typeof start>, token: string) {
  const { hashToken, nameIdOf } = await import('../../src/request/tokens/container-token.ts');
  assert.ok(database);
  return nameIdOf(hashToken(token as Parameters<typeof hashToken>[0]));
}

test('the status of a run is that of the platform, with the token of the caller', async () => {
  await using scripted = await startScriptedPlatform();
  await using world = await makePlatformWorld({ url: scripted.url });
  await using hasty = await makePlatformWorld({ url: scripted.url, timeout: 300 });
  scripted.users.set('mine', { id: 1, userName: 'me', email: null });
  const grant = { endpoint: scripted.url, accessToken: 'mine' };
  const answer = (id: string, document: unknown, status = 200) =>
    scripted.on(`GET /api/workflow/${id}`, (_, response) => send(response, status, document));
  answer('good', { workflow: { id: 'good', status: 'RUNNING', more: 1 } });
  assert.equal(await world.platform.run(grant, 'good', '42'), 'RUNNING');
  const call = scripted.calls.at(-1);
  assert.deepEqual([call?.token, call?.query.get('workspaceId')], ['mine', '42']);

  answer('gone', {}, 404);
  await assert.rejects(world.platform.run(grant, 'gone'), isFault('not-found', /run gone/, 'mine'));
  await assert.rejects(
    world.platform.run(grant, 'theirs'),
    isFault('denied', /run theirs/, 'mine'),
  );
  answer('other', { workflow: { id: 'good', status: 'RUNNING' } });
  answer('odd', { workflow: { status: 7 } });
  answer('text', 'RUNNING');
  answer('long', { workflow: { status: 'x'.repeat(1000) } });
  for (const id of ['other', 'odd', 'text', 'long']) {
    await assert.rejects(world.platform.run(grant, id), isFault('upstream-unusable', /./, 'mine'));
  }
  answer('broken', {}, 503);
  await assert.rejects(world.platform.run(grant, 'broken'), isFault('unavailable', /./, 'mine'));
  assert.equal(scripted.count('/workflow/broken'), 1, 'it is not retried');
  scripted.on('GET /api/workflow/slow', () => {});
  await assert.rejects(hasty.platform.run(grant, 'slow'), isFault('upstream-timeout', /./, 'mine'));
  const before = scripted.calls.length;
  for (const id of ['../user-info', 'a/b', '', 'a?b', 'x'.repeat(200)]) {
    await assert.rejects(world.platform.run(grant, id), isFault('not-found', /does not know/));
  }
  assert.equal(scripted.calls.length, before);
});
