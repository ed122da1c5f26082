import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';

const hourMs = 3_600_000;
const unlimited = { async admitRequest() {} };

function issueOne(
  registry: ReturnType<typeof createTokenRegistry>,
  env = ['A=1'],
  network?: string,
) {
  return registry.issue(token => ({
    caller: { address: '192.0.2.1', network },
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
function timed(store = createRequestStore(openDatabase(':memory:')), lifeMs = hourMs) {
  const clock = { now: 1_900_000_000_000 };
  const registry = createTokenRegistry(store, lifeMs, unlimited, { now: () => clock.now });
  return { clock, registry, store };
}

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

test('a revocation also ends a token that is being looked up at that moment', async () => {
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
  const registry = createTokenRegistry({ ...store, find }, hourMs, unlimited);
  const { token } = await issueOne(registry);
  const before = registry.get(token);
  await seen.promise;
  isHeld = false;
  await registry.revoke(token);
  held.resolve();
  assert.equal((await before).token, token, 'it was asked before');
  await assert.rejects(registry.get(token), refused(/was revoked at/));
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
  const database = createRequestStore(openDatabase(':memory:'));
  let reads = 0;
  const find: typeof database.find = hash => {
    reads += 1;
    return database.find(hash);
  };
  const { registry } = timed({ ...database, find });
  const { token } = await issueOne(registry);
  await registry.get(token);
  await registry.purge();
  await registry.get(token);
  assert.equal(reads, 1);
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
