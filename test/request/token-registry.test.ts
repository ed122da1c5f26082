import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import {
  type ContainerToken,
  hashToken,
  nameIdOf,
} from '../../src/request/tokens/container-token.ts';
import {
  checkEveryMs,
  createTokenReader,
  createTokenRegistry,
  type TokenRegistryOptions,
} from '../../src/request/tokens/token-registry.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import {
  createRequestStore,
  type NewRequestRow,
  type RequestStore,
  type RequestTimes,
} from '../../src/storage/rows/images/request-rows.ts';

const hourMs = 3_600_000;
const unlimited = { async admitRequest() {} };

function issueOne(
  registry: ReturnType<typeof createTokenRegistry>,
  env = ['A=1'],
  network?: string,
  run?: { readonly key: string; readonly platform: string; readonly id: string },
) {
  return registry.issue(token => ({
    caller: { address: '192.0.2.1', network },
    run,
    image: { registry: 'docker.io', repository: 'library/alpine', tag: 'latest' },
    fixed: {
      base: { mediaType: 'm', digest: digestOf('base') },
      served: { mediaType: 'm', digest: digestOf('served') },
    },
    change: { env },
    targetImage: `sluice.example.com/ct/${token}/library/alpine:latest`,
    isMounted: false,
  }));
}

test('another process finds the same request by its token, which is not in the database', async () => {
  const database = openDatabase(':memory:');
  const issued = await issueOne(
    createTokenRegistry(createRequestStore(database), hourMs, unlimited),
  );
  assert.ok(!database.serialize().includes(issued.token), 'the token is not stored in plain text');
  const other = createTokenRegistry(createRequestStore(database), hourMs, unlimited);
  assert.deepEqual(
    JSON.parse(JSON.stringify(await other.get(issued.token))),
    JSON.parse(JSON.stringify(issued)),
  );
  assert.equal(issued.expiresAt - issued.createdAt, hourMs);
  assert.ok(!issued.label.includes(issued.token.slice(0, 6)));
});

const refused = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Fault);
  assert.equal(error.status, 404);
  assert.match(error.message, message);
  return true;
};

test('unknown, expired and revoked tokens are distinguished in each process', async () => {
  const database = openDatabase(':memory:');
  const store = createRequestStore(database);
  const registry = createTokenRegistry(store, hourMs, unlimited);
  const short = createTokenRegistry(store, -1, unlimited);
  const { token } = await issueOne(registry);
  const expired = await issueOne(short);
  for (const unknown of ['', 'x', 'a'.repeat(32), `${token}a`]) {
    await assert.rejects(() => registry.get(unknown), refused(/^Unknown container token/));
    await assert.rejects(registry.revoke(unknown), refused(/^Unknown container token/));
  }
  for (const own of [short, registry, createTokenRegistry(store, hourMs, unlimited)]) {
    await assert.rejects(
      () => own.get(expired.token),
      refused(/library\/alpine expired at .*Z: make a new/),
    );
    assert.equal((await own.describe(expired.token)).token, expired.token);
  }
  assert.equal((await registry.get(token)).token, token);
  await registry.revoke(token);
  for (const own of [registry, createTokenRegistry(store, hourMs, unlimited)]) {
    await assert.rejects(() => own.get(token), refused(/was revoked at .*Z: make a new/));
    await assert.rejects(own.revoke(token), refused(/^Unknown container token/));
    assert.equal((await own.describe(token)).fixed?.served.digest, digestOf('served'));
    assert.ok((await own.describe(token)).expiresAt <= Date.now(), 'it has ended');
  }
  await registry.purge();
  assert.equal((await registry.describe(token)).token, token, 'remembered for a while');
});

test('a token that another server has revoked ends, unless the database does not answer', async () => {
  const store = createRequestStore(openDatabase(':memory:'));
  let isCurrent = true;
  let isAway = false;
  const away = new Fault('unavailable', 'the database does not answer', { phase: 'store' });
  const find: typeof store.find = hash => (isAway ? Promise.reject(away) : store.find(hash));
  const options = { isCurrent: () => isCurrent };
  const former = createTokenRegistry({ ...store, find }, hourMs, unlimited, options);
  const next = createTokenRegistry(store, hourMs, unlimited);
  const { token } = await issueOne(former);
  assert.equal((await former.get(token)).token, token);
  isCurrent = false;
  assert.equal((await former.get(token)).token, token);
  await next.revoke(token);
  isAway = true;
  assert.equal((await former.get(token)).token, token, 'pulls continue');
  isAway = false;
  for (let time = 0; time < 2; time += 1) {
    await assert.rejects(former.get(token), refused(/was revoked at/));
    isAway = true;
    if (time === 0) await assert.rejects(former.get(token), away);
    isAway = false;
    isCurrent = true;
  }
});

test('a token whose revocation happened without an answer ends', async () => {
  const store = createRequestStore(openDatabase(':memory:'));
  const broken = new Fault('unavailable', 'the connection broke', { phase: 'store' });
  const withoutResponse: typeof store.revoke = async (hash, at) => {
    await store.revoke(hash, at);
    throw broken;
  };
  const registry = createTokenRegistry({ ...store, revoke: withoutResponse }, hourMs, unlimited);
  const { token } = await issueOne(registry);
  await registry.get(token);
  await assert.rejects(registry.revoke(token), broken);
  await assert.rejects(registry.get(token), refused(/was revoked at/));
});

/** A registry whose time is set by hand. */
function timed(
  store = createRequestStore(openDatabase(':memory:')),
  options: TokenRegistryOptions = {},
) {
  const clock = { now: 1_900_000_000_000 };
  const now = () => clock.now;
  const registry = createTokenRegistry(store, hourMs, unlimited, { now, ...options });
  return { clock, registry, store, now };
}

/** A store that counts how often a request is read. */
function counted(store = createRequestStore(openDatabase(':memory:'))) {
  const reads = { count: 0 };
  const find: RequestStore['find'] = hash => {
    reads.count += 1;
    return store.find(hash);
  };
  return { reads, store: { ...store, find } };
}

const run = { key: 'ab', platform: 'platform.example.com', id: 'one' };
const idOf = (token: string) => nameIdOf(hashToken(token as ContainerToken));

test('a token lives until the last millisecond of its time', async () => {
  const { clock, registry, store } = timed();
  const { token, expiresAt } = await issueOne(registry);
  for (const own of [registry, timed(store).registry]) {
    clock.now = expiresAt - 1;
    assert.equal((await own.get(token)).token, token);
  }
  clock.now = expiresAt;
  await assert.rejects(
    registry.get(token),
    refused(/ expired at 2030-03-17T18:46:40Z: make a new/),
  );
});

/** A registry that issues a token, reads it, and changes it while the row that it has read is on its way. */
async function changedWhileRead(
  change: (registry: ReturnType<typeof createTokenRegistry>, token: string) => Promise<unknown>,
) {
  const store = createRequestStore(openDatabase(':memory:'));
  const held = Promise.withResolvers<void>();
  const seen = Promise.withResolvers<void>();
  let isHeld = true;
  const find: typeof store.find = async hash => {
    const row = await store.find(hash);
    if (!isHeld) return row;
    seen.resolve();
    await held.promise;
    return row;
  };
  const { registry } = timed({ ...store, find }, { maxLifeMs: 9 * hourMs });
  const { token, expiresAt } = await issueOne(registry);
  const before = registry.get(token);
  await seen.promise;
  isHeld = false;
  await change(registry, token);
  held.resolve();
  assert.equal((await before).expiresAt, expiresAt, 'it was read before');
  return { registry, token, expiresAt };
}

test('a revocation also ends a token that is being looked up at that moment', async () => {
  const { registry, token } = await changedWhileRead((all, one) => all.revoke(one));
  await assert.rejects(registry.get(token), refused(/was revoked at/));
});

test('a request that was extended while it was looked up has its new end', async () => {
  const extend = (all: ReturnType<typeof createTokenRegistry>, one: string) =>
    all.extendById(idOf(one), 2 * hourMs);
  const { registry, token, expiresAt } = await changedWhileRead(extend);
  assert.equal((await registry.get(token)).expiresAt, expiresAt + hourMs);
});

test('a request in memory has its new end as soon as it is extended or revoked', async () => {
  const { clock, registry } = timed(undefined, { maxLifeMs: 9 * hourMs });
  const { token, createdAt } = await issueOne(registry);
  await registry.get(token);
  clock.now += 1;
  const expiresAt = createdAt + hourMs + 1;
  assert.deepEqual(await registry.extendById(idOf(token)), { expiresAt, isLonger: true });
  assert.equal((await registry.get(token)).expiresAt, expiresAt);
  await registry.revoke(token);
  await assert.rejects(registry.get(token), refused(/was revoked at/));
});

test('a request is extended up to the maximum, and not once it has ended', async () => {
  const asked: number[] = [];
  const rows = createRequestStore(openDatabase(':memory:'));
  let isRefused = false;
  const extend: typeof rows.extend = async (hash, until, buildId) => {
    asked.push(until);
    return !isRefused && rows.extend(hash, until, buildId);
  };
  const { clock, registry } = timed({ ...rows, extend }, { maxLifeMs: 3 * hourMs });
  const { token, createdAt, expiresAt } = await issueOne(registry);
  const id = idOf(token);
  const same = { expiresAt, isLonger: false };
  assert.deepEqual(await registry.extendById(id), same, 'it has this end');
  assert.deepEqual(await registry.extendById(id, 1), same, 'it never ends earlier');
  assert.deepEqual(asked, []);
  clock.now = expiresAt - 1;
  isRefused = true;
  assert.equal(await registry.extendById(id), undefined, 'it was revoked meanwhile');
  isRefused = false;
  const most = createdAt + 3 * hourMs;
  assert.deepEqual(await registry.extendById(id, 9 * hourMs), { expiresAt: most, isLonger: true });
  asked.length = 0;
  clock.now = most;
  assert.equal(await registry.extendById(id), undefined, 'it has ended');
  const other = await issueOne(registry);
  clock.now += 1;
  await registry.revoke(other.token);
  assert.equal(await registry.extendById(idOf(other.token)), undefined, 'it was revoked');
  assert.equal(await registry.extendById(idOf('a'.repeat(32))), undefined, 'nobody issued it');
  assert.deepEqual(asked, []);
});

test('a request with a run may live for the maximum, and is stored with the lease of the run', async () => {
  const rows: NewRequestRow[] = [];
  const store = createRequestStore(openDatabase(':memory:'));
  const insert: typeof store.insert = async (_, row) => void rows.push(row);
  const options = { maxLifeMs: 9 * hourMs, runLeaseMs: 8000 };
  const { clock, registry } = timed({ ...store, insert }, options);
  const plain = await issueOne(registry);
  const tied = await issueOne(registry, [], undefined, run);
  const ends = [clock.now + hourMs, clock.now + 9 * hourMs];
  assert.deepEqual([plain.expiresAt, tied.expiresAt], ends);
  assert.deepEqual(
    rows.map(row => row.expiresAt),
    ends,
  );
  const stored = {
    key: Buffer.from('ab', 'hex'),
    platform: run.platform,
    leaseUntil: clock.now + 8000,
    dueAt: clock.now + 2000,
  };
  assert.deepEqual(
    rows.map(row => row.run),
    [undefined, stored],
  );
});

test('the platform of a run is asked four times within a lease, and at least every three minutes', () => {
  assert.deepEqual([400, 720_000, 720_400].map(checkEveryMs), [100, 180_000, 180_000]);
});

test('a request with a run is read again after five seconds, one without stays in memory', async context => {
  const at = { ms: 1000 };
  context.mock.method(performance, 'now', () => at.ms);
  const { reads, store } = counted();
  const { registry } = timed(store);
  for (const [own, expected] of [
    [undefined, [1, 1, 1]],
    [run, [1, 1, 2]],
  ] as const) {
    const { token } = await issueOne(registry, [], undefined, own);
    reads.count = 0;
    const counts: number[] = [];
    for (const ms of [0, 5000, 1]) {
      at.ms += ms;
      await registry.get(token);
      counts.push(reads.count);
    }
    assert.deepEqual(counts, expected);
  }
});

test('a request in memory whose run has been confirmed meanwhile is live', async () => {
  const store = createRequestStore(openDatabase(':memory:'));
  const options = { maxLifeMs: 9 * hourMs };
  const { clock, registry } = timed(store, options);
  const { token, createdAt } = await issueOne(registry, [], undefined, run);
  const { expiresAt } = await registry.get(token);
  assert.equal(expiresAt, createdAt + hourMs);
  // Another request of the same run, at another server.
  const other = timed(store, options);
  other.clock.now = expiresAt - 1;
  await issueOne(other.registry, [], undefined, run);
  clock.now = expiresAt;
  assert.equal((await registry.get(token)).expiresAt, expiresAt - 1 + hourMs);
  clock.now = expiresAt - 1 + hourMs;
  await assert.rejects(
    registry.get(token),
    refused(/ ended at .* with the run one, which platform/),
  );
});

test('a server that does not lead reads each token again, and keeps what has not changed', async () => {
  const { clock, registry, store, now } = timed();
  const { token, expiresAt } = await issueOne(registry);
  const row = await store.find(hashToken(token as ContainerToken));
  assert.ok(row);
  let change: Partial<RequestTimes> = {};
  let isGone = false;
  const counts = { find: 0, findTimes: 0 };
  const reader = createTokenReader(
    {
      find(hash) {
        counts.find += 1;
        return store.find(hash);
      },
      async findTimes(hash) {
        counts.findTimes += 1;
        const found = await store.findTimes(hash);
        return found && !isGone ? { ...found, ...change } : undefined;
      },
    },
    now,
  );
  const read = await reader.get(token);
  assert.deepEqual([read.token, read.expiresAt], [token, expiresAt]);
  assert.equal(await reader.get(token), read);
  const changes: readonly Partial<RequestTimes>[] = [
    { createdAt: row.createdAt - 1 },
    { expiresAt: row.expiresAt - 1 },
    { leaseUntil: row.expiresAt - 2 },
  ];
  for (const changed of changes) {
    change = changed;
    const again = await reader.get(token);
    const stored: typeof row = { ...row, ...changed };
    assert.equal(again.createdAt, stored.createdAt);
    assert.equal(again.expiresAt, stored.leaseUntil ?? stored.expiresAt);
    assert.deepEqual(again.change.env, JSON.parse(stored.body).change.env);
    assert.equal(await reader.get(token), again);
  }
  assert.deepEqual(counts, { find: 1, findTimes: 7 }, 'its text is read once');
  isGone = true;
  await assert.rejects(reader.get(token), refused(/^Unknown container token/));
  isGone = false;
  change = {};
  await reader.get(token);
  assert.deepEqual(counts, { find: 2, findTimes: 8 });
  clock.now = expiresAt - 1;
  assert.equal((await reader.get(token)).token, token);
  clock.now = expiresAt;
  await assert.rejects(reader.get(token), refused(/ expired at .*: make a new/));
  assert.equal((await reader.unrevoked(token)).token, token, 'a transfer continues');
  change = { revokedAt: expiresAt - 1 };
  await assert.rejects(reader.get(token), refused(/was revoked at/));
  await assert.rejects(reader.unrevoked(token), refused(/was revoked at/));
  for (const unknown of ['x', 'a'.repeat(32)]) {
    await assert.rejects(reader.get(unknown), refused(/^Unknown container token/));
  }
  const live = await issueOne(createTokenRegistry(store, hourMs, unlimited));
  change = {};
  assert.equal((await createTokenReader(store).get(live.token)).token, live.token);
});

test('a transfer continues after the end of its token, unless it was revoked before', async () => {
  const { clock, registry, store } = timed();
  const { token, expiresAt } = await issueOne(registry);
  clock.now = expiresAt + 1;
  assert.equal((await registry.unrevoked(token)).token, token);
  for (const [revokedAt, isEnded] of [
    [expiresAt - 1, true],
    [expiresAt, false],
    [expiresAt + 1, false],
  ] as const) {
    const find: typeof store.find = async hash => {
      const row = await store.find(hash);
      return row && { ...row, revokedAt };
    };
    const { registry: other } = timed({ ...store, find });
    if (isEnded) await assert.rejects(other.unrevoked(token), refused(/was revoked at/));
    else assert.equal((await other.unrevoked(token)).token, token);
    assert.equal((await other.describe(token)).expiresAt, Math.min(expiresAt, revokedAt));
  }
});

test('an unknown token writes nothing', async () => {
  const store = createRequestStore(openDatabase(':memory:'));
  const revoke = () => assert.fail('a stranger reached the database');
  const registry = createTokenRegistry({ ...store, revoke }, hourMs, unlimited);
  await assert.rejects(registry.revoke('a'.repeat(32)), refused(/^Unknown container token/));
});

test('an ended token is remembered for three days', async () => {
  const { clock, registry } = timed();
  const { token, expiresAt } = await issueOne(registry);
  clock.now = expiresAt + 3 * 24 * hourMs;
  await registry.purge();
  assert.equal((await registry.describe(token)).token, token);
  clock.now += 1;
  await registry.purge();
  await assert.rejects(registry.describe(token), refused(/^Unknown container token/));
});

test('a request from a wrong clock gets its usual life, counted from now', async () => {
  const { clock, registry } = timed();
  const right = clock.now;
  const issueAt = async (time: number) => {
    clock.now = time;
    const { token } = await issueOne(registry);
    await registry.get(token);
    return token;
  };
  const early = await issueAt(right + hourMs);
  const late = await issueAt(right + hourMs + 1);
  clock.now = right;
  await registry.purge();
  const endOf = async (token: string) => (await registry.get(token)).expiresAt - right;
  assert.equal(await endOf(early), 2 * hourMs, 'clocks differ by up to an hour');
  assert.equal(await endOf(late), hourMs);
});

test('what is in memory stays there where no clock was wrong', async () => {
  const { reads, store } = counted();
  const { registry } = timed(store);
  const { token } = await issueOne(registry);
  await registry.get(token);
  await registry.purge();
  await registry.get(token);
  assert.equal(reads.count, 1);
});

test('the network of a caller is admitted before the request is stored, and stored with it', async () => {
  const store = createRequestStore(openDatabase(':memory:'));
  const seen: unknown[] = [];
  const insert: typeof store.insert = async (hash, row) => {
    seen.push(row.network);
    return store.insert(hash, row);
  };
  const full = new Fault('too-many-requests', 'the share of the network is full', {
    phase: 'limit',
  });
  const share = {
    async admitRequest(network: string | undefined) {
      seen.push(network);
      if (network === '192.0.2.2') throw full;
    },
  };
  const registry = createTokenRegistry({ ...store, insert }, hourMs, share);
  await issueOne(registry, [], '192.0.2.1');
  assert.deepEqual(seen.splice(0), ['192.0.2.1', '192.0.2.1']);
  await assert.rejects(issueOne(registry, [], '192.0.2.2'), full);
  assert.deepEqual(seen, ['192.0.2.2'], 'it is not stored');
});
