import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { createLogger } from '../../src/foundation/telemetry.ts';
import { createPairing } from '../../src/platform/pairing/pairing.ts';
import { createPairingKeys } from '../../src/platform/pairing/pairing-keys.ts';
import { createPairingStore } from '../../src/storage/rows/people/platform-rows.ts';
import { createSecretBox } from '../../src/storage/rows/secret-box.ts';
import { eventually } from '../world/eventually.ts';
import { listen, type Message, pair, pairingUrl, type Responder, refusal } from './pairing-peer.ts';
import { isFault, makePlatformWorld } from './platform-world.ts';
import { sealPacket } from './seal-packet.ts';

const endpoint = 'https://tower.example/api';
const pairingToken = 'a-pairing-token-of-the-operator';
const grant = { endpoint, accessToken: 'token-of-alice' };
const day = 24 * 3_600_000;

const userInfo: Responder = ({ auth }) =>
  auth === 'Bearer token-of-alice'
    ? reply({ user: { id: 7, userName: 'alice', email: 'alice@lab.example' } })
    : { status: 403, body: '', headers: {} };

function reply(document: unknown): Message {
  const headers = { 'Content-Type': ['application/json'] };
  return { status: 200, body: JSON.stringify(document), headers };
}

async function start(settings: Parameters<typeof makePlatformWorld>[0] = {}) {
  const stack = new AsyncDisposableStack();
  const world = stack.use(
    await makePlatformWorld({ allow: [endpoint], pairingToken, timeout: 20_000, ...settings }),
  );
  const { url } = stack.use(await listen(world.client.pairing));
  const address = pairingUrl(url, pairingToken, endpoint);
  return { world, url, address, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test('a platform that cannot be reached is asked over the socket that it opened', async () => {
  await using at = await start();
  const peer = await pair(at.address, userInfo);
  assert.equal((await at.world.platform.user(grant)).userName, 'alice');
  const { msgId, ...request } = peer.requests[0] ?? {};
  assert.equal(typeof msgId, 'string');
  assert.deepEqual(request, {
    '@type': 'proxy-http-request',
    method: 'GET',
    uri: 'https://tower.example/api/user-info',
    auth: 'Bearer token-of-alice',
    headers: { accept: ['application/json'], 'accept-version': ['1'] },
  });
  peer.socket.close();
});

test('keys are encrypted for the pairing of the request', async () => {
  await using at = await start();
  const keys = {
    discriminator: 'container-reg',
    userName: 'robot',
    password: 'pä55',
    registry: 'quay.io',
  };
  const peer = await pair(at.address, ({ uri }) => {
    const url = new URL(String(uri));
    assert.equal(url.searchParams.get('pairingId'), peer.pairingId);
    assert.equal(url.searchParams.get('workspaceId'), '42');
    return reply({ keys: sealPacket(JSON.stringify(keys), peer.publicKey) });
  });
  const { discriminator: kind, userName: username, ...others } = keys;
  assert.deepEqual(await at.world.platform.keys(grant, 'c1', '42'), { kind, username, ...others });
  peer.socket.close();
});

test('keys for another pairing cannot be read, and the message has a remedy', async () => {
  await using at = await start();
  const store = createPairingStore(at.world.database);
  const other = await createPairingKeys({ store, box: createSecretBox(Buffer.alloc(32, 7)) }).lease(
    'tower',
    at.world.client.endpoints.resolve('http://127.0.0.1:9090/platform'),
  );
  const peer = await pair(at.address, () => reply({ keys: sealPacket('{}', other.publicKey) }));
  await assert.rejects(
    at.world.platform.keys(grant, 'c1'),
    isFault('upstream-unusable', /cannot be decrypted.*pair it again/),
  );
  peer.socket.close();
});

test('a refresh uses the socket too, and returns its cookies', async () => {
  await using at = await start();
  const peer = await pair(at.address, ({ method, uri, auth, body, headers }) => {
    if (method === 'GET') {
      return auth === 'Bearer renewed' ? reply({ user: { id: 7 } }) : { status: 401 };
    }
    assert.equal(uri, 'https://tower.example/api/oauth/access_token');
    assert.equal(body, 'grant_type=refresh_token&refresh_token=refresh-of-alice');
    assert.deepEqual((headers as Record<string, unknown>)['content-type'], [
      'application/x-www-form-urlencoded',
    ]);
    return {
      status: 200,
      headers: { 'Set-Cookie': ['JWT=renewed; Path=/', 'JWT_REFRESH_TOKEN=next'] },
    };
  });
  const user = await at.world.platform.user({ ...grant, refreshToken: 'refresh-of-alice' });
  assert.equal(user.id, '7');
  peer.socket.close();
});

test('unauthorised platforms cannot pair', async () => {
  await using at = await start();
  for (const [address, status, message] of [
    [pairingUrl(at.url, 'wrong', endpoint), 403, /token is wrong/],
    [pairingUrl(at.url, `${pairingToken}x`, endpoint), 403, /token is wrong/],
    [pairingUrl(at.url, pairingToken, 'https://evil.example/api'), 400, /platform\.allow/],
    [pairingUrl(at.url, pairingToken, 'http://tower.example/api'), 400, /platform\.allow/],
    [pairingUrl(at.url, pairingToken, 'http://127.0.0.1:9090/platform'), 403, /built-in/],
    [pairingUrl(at.url, pairingToken, ''), 400, /address of the platform is missing/],
    [`${at.url}/pairing/tower/token/${pairingToken}`, 400, /missing/],
    [`${at.url}/pairing/tower/token/%zz?endpoint=${endpoint}`, 403, /token is wrong/],
    [`${at.url}/pairing/to.wer/token/${pairingToken}?endpoint=${endpoint}`, 404, /^$/],
    [`${at.url}/other`, 404, /^$/],
  ] as const) {
    const refused = await refusal(address);
    assert.equal(refused.status, status, address);
    assert.match(refused.message, message);
  }
  await using closed = await start({ pairingToken: undefined });
  const refused = await refusal(pairingUrl(closed.url, 'undefined', endpoint));
  assert.deepEqual([refused.status, /platform\.pairingToken/.test(refused.message)], [403, true]);
  assert.equal(
    at.world.client.pairing.isPaired(at.world.client.endpoints.resolve(endpoint)),
    false,
  );
});

test('a key pair lasts a day, then another one follows with its own id', async () => {
  await using at = await start();
  const clock = { now: Date.now() };
  const store = createPairingStore(at.world.database);
  const box = createSecretBox(Buffer.alloc(32, 7));
  const keys = createPairingKeys({ store, box, now: () => clock.now });
  const tower = at.world.client.endpoints.resolve(endpoint);
  const many = await Promise.all(Array.from({ length: 5 }, () => keys.lease('tower', tower)));
  assert.equal(new Set(many.map(({ id }) => id)).size, 1);
  const [first] = many;
  assert.ok(first);
  assert.notEqual((await keys.lease('other', tower)).id, first.id);
  clock.now += day - 1;
  assert.equal((await keys.lease('tower', tower)).id, first.id);
  clock.now += 1;
  const second = await keys.lease('tower', tower);
  assert.notEqual(second.id, first.id);
  assert.notEqual(second.publicKey, first.publicKey);
  assert.equal((await keys.of(tower))?.id, second.id);
  assert.equal((await keys.of(tower))?.open(sealPacket('text', second.publicKey)), 'text');
  clock.now += 29 * day + 1;
  assert.equal(await keys.purge(), 2);
  assert.deepEqual([await keys.isKept(first.id), await keys.isKept(second.id)], [false, true]);

  // Another key for the secrets cannot decrypt them: a new pair is made.
  const otherBox = createPairingKeys({ store, box: createSecretBox(Buffer.alloc(32, 9)) });
  const third = await otherBox.lease('tower', tower);
  assert.notEqual(third.id, second.id);
});

test('the private key is not in the database in plain text', async () => {
  await using at = await start();
  const peer = await pair(at.address, userInfo);
  const bytes = at.world.database.serialize();
  assert.ok(bytes.includes(peer.publicKey), 'the public key is there');
  // What every private RSA key of PKCS #8 begins with, behind its length.
  const header = Buffer.from('020100300d06092a864886f70d0101010500', 'hex');
  assert.equal(bytes.includes(header), false);
  assert.equal(bytes.includes('BADANBgkqhkiG9w0BAQEFAASC'), false, 'nor in base64');
  assert.equal(bytes.includes('PRIVATE KEY'), false);
  peer.socket.close();
});

test('heartbeats are answered while the key pair exists', async () => {
  await using at = await start();
  const peer = await pair(at.address, userInfo);
  peer.say({ '@type': 'pairing-heartbeat', msgId: 'beat-1' });
  assert.deepEqual(await peer.next(), { '@type': 'pairing-heartbeat', msgId: 'beat-1' });
  at.world.database.exec('DELETE FROM platform_pairings');
  peer.say({ '@type': 'pairing-heartbeat', msgId: 'beat-2' });
  assert.equal(await peer.closed(), 1001);
  const again = await pair(at.address, userInfo);
  assert.notEqual(again.pairingId, peer.pairingId);
  again.socket.close();
});

test('malformed messages are skipped, or end only their socket', async () => {
  await using at = await start();
  const peer = await pair(at.address, userInfo);
  for (const text of [
    '',
    'nonsense',
    '[]',
    '{"@type":"unknown"}',
    '{"@type":"proxy-http-response"}',
  ]) {
    peer.socket.send(text);
  }
  peer.say({ '@type': 'proxy-http-response', msgId: 'never asked', status: 200 });
  assert.equal((await at.world.platform.user(grant)).id, '7');
  peer.socket.send(Buffer.from([1, 2, 3]));
  assert.equal(await peer.closed(), 1003);
  const large = await pair(at.address, userInfo);
  large.say({ '@type': 'pairing-heartbeat', msgId: 'x'.repeat(17 * 1024 * 1024) });
  assert.equal(await large.closed(), 1009);
  const after = await pair(at.address, userInfo);
  after.socket.close();
});

test('a socket that breaks during a request is replaced by another one', async () => {
  await using at = await start();
  const breaking = await pair(at.address, () => {
    breaking.socket.terminate();
    return undefined;
  });
  const steady = await pair(at.address, userInfo);
  assert.equal((await at.world.platform.user(grant)).id, '7');
  assert.equal(breaking.requests.length, 1);
  assert.equal(steady.requests.length, 1);
  steady.socket.close();
});

test('a platform that does not answer over its socket times out', async () => {
  await using at = await start({ timeout: 200 });
  const peer = await pair(at.address, () => undefined);
  await assert.rejects(
    at.world.platform.user(grant),
    isFault('upstream-timeout', /tower\.example did not answer in time/),
  );
  peer.socket.close();
});

test('several sockets of one platform take turns, up to a limit', async () => {
  await using at = await start();
  const peers = await Promise.all(Array.from({ length: 3 }, () => pair(at.address, userInfo)));
  for (const name of ['1', '2', '3']) {
    await at.world.platform.credentials(grant, name).catch(() => {});
  }
  assert.ok(peers.every(({ requests }) => requests.length > 0));
  const more = await Promise.all(Array.from({ length: 17 }, () => pair(at.address, userInfo)));
  assert.equal((await refusal(at.address)).status, 429);
  for (const { socket } of [...peers, ...more]) socket.close();
});

test('a socket with a vanished peer is closed', async () => {
  await using at = await start();
  const { endpoints } = at.world.client;
  const store = createPairingStore(at.world.database);
  const keys = createPairingKeys({ store, box: createSecretBox(Buffer.alloc(32, 7)) });
  const pairing = createPairing({
    endpoints,
    keys,
    token: pairingToken,
    timeoutMs: 20_000,
    log: createLogger('silent'),
    pingMs: 500,
  });
  await using server = await listen(pairing);
  // It never answers a ping.
  const mute = new WebSocket(pairingUrl(server.url, pairingToken, endpoint), { autoPong: false });
  const lively = await pair(pairingUrl(server.url, pairingToken, endpoint), userInfo);
  const [code] = await once(mute, 'close');
  assert.equal(code, 1006);
  await sleep(600);
  assert.equal(lively.socket.readyState, WebSocket.OPEN);
  assert.equal(pairing.isPaired(endpoints.resolve(endpoint)), true);
  pairing.close();
  assert.equal(await lively.closed(), 1001);
});

test('the log contains neither tokens nor keys', async () => {
  await using at = await start();
  const peer = await pair(at.address, userInfo);
  await at.world.platform.user(grant);
  peer.socket.close();
  await peer.closed();
  const isTold = () => /platform paired.*\n.*platform left/.test(at.world.logged());
  await eventually('both are in the log', isTold);
  for (const secret of [pairingToken, 'token-of-alice', peer.publicKey]) {
    assert.equal(at.world.logged().includes(secret), false);
  }
});
