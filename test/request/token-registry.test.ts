import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Fault } from '../../src/foundation/fault.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { createTokenRegistry } from '../../src/request/tokens/token-registry.ts';
import { openDatabase } from '../../src/storage/rows/database.ts';
import { createRequestStore } from '../../src/storage/rows/images/request-rows.ts';

const hourMs = 3_600_000;
const unlimited = { async admitRequest() {} };

function issueOne(registry: ReturnType<typeof createTokenRegistry>, env = ['A=1']) {
  return registry.issue(token => ({
    caller: { address: '192.0.2.1' },
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
  const withoutAnswer: typeof store.revoke = async (hash, at) => {
    await store.revoke(hash, at);
    throw broken;
  };
  const registry = createTokenRegistry({ ...store, revoke: withoutAnswer }, hourMs, unlimited);
  const { token } = await issueOne(registry);
  await registry.get(token);
  await assert.rejects(registry.revoke(token), broken);
  await assert.rejects(registry.get(token), refused(/was revoked at/));
});

test('large requests do not stay in memory after a look-up', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const database = openDatabase(':memory:');
  const registry = createTokenRegistry(createRequestStore(database), hourMs, unlimited);
  const large = `A=${'x'.repeat(960 * 1024)}`;
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let count = 0; count < 80; count += 1) {
    const { token } = await issueOne(registry, [large]);
    assert.equal((await registry.get(token)).change.env?.[0]?.length, large.length);
  }
  collectGarbage();
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(grown < 40 * 1024 * 1024, `${grown} bytes more than before`);
});
