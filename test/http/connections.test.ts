import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLog } from '../faults/fault-world.ts';
import { assertApiFault, call, raw } from '../faults/http-client.ts';
import { eventually } from '../world/eventually.ts';
import { startSluice } from '../world/sluice.ts';
import { open } from './open-connection.ts';

const halfRequest = 'GET /service-info HTTP/1.1\r\nHost: localhost';
const wholeRequest = 'GET /service-info HTTP/1.1\r\nHost: localhost\r\n\r\n';

const limits = (connections: object) => ({ config: { limits: { connections } } });

test('silent and half-sent requests end after the timeout for heads', async () => {
  await using sluice = await startSluice(limits({ requestTime: '1s' }));
  const [silent, half] = [open(sluice, ''), open(sluice, halfRequest)];
  await eventually('both are closed', () => silent.isClosed() && half.isClosed(), 15_000);
  assert.match(half.text(), /^HTTP\/1\.1 408 /);
  assert.match(half.text(), /did not arrive in time/);
});

test('a connection may be silent for longer after its answer', async () => {
  await using sluice = await startSluice(limits({ requestTime: '500ms' }));
  const kept = open(sluice, wholeRequest);
  const silent = open(sluice, '');
  await eventually('the silent one is closed', silent.isClosed);
  assert.equal(kept.isClosed(), false);
  kept.socket.write(wholeRequest);
  await eventually('it answers again', () => kept.text().split('HTTP/1.1 200').length === 3);
  kept.socket.destroy();
});

test('a stop ends idle, silent and half-sent connections at once, and waits for running answers', async () => {
  const sluice = await startSluice({ config: { accounts: { admin: 'open sesame' } } });
  try {
    const idle = open(sluice, wholeRequest);
    await eventually('answered', () => idle.text().includes('serviceInfo'));
    const [silent, half] = [open(sluice, ''), open(sluice, halfRequest)];
    const body = '{"containerImage":"127.0.0.1:1/a/b:c"}';
    const head = `POST /v1alpha2/container HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const pending = open(sluice, head);
    // Bytes sent earlier have arrived when the server has answered on a later connection.
    assert.equal((await sluice.fetch('/healthz')).status, 200);
    sluice.process.kill('SIGTERM');
    const three = [idle, silent, half];
    await eventually('all three are closed', () => three.every(one => one.isClosed()), 10_000);
    assert.equal(pending.isClosed(), false);
    pending.socket.write(body);
    await eventually('it has its answer', pending.isClosed);
    assert.match(pending.text(), /^HTTP\/1\.1 \d{3} /);
    await eventually('the server ends', () => sluice.process.exitCode !== null, 10_000);
    assert.equal(sluice.process.exitCode, 0);
  } finally {
    await sluice.stop();
  }
});

test('one address cannot use all connections, and gets new ones when it closes some', async () => {
  await using sluice = await startSluice(limits({ perAddress: 5 }));
  const greedy = Array.from({ length: 5 }, () => open(sluice, wholeRequest, '127.0.0.2'));
  await eventually('all are answered', () => greedy.every(one => one.text() !== ''));
  const sixth = open(sluice, wholeRequest, '127.0.0.2');
  await eventually('the sixth is closed', sixth.isClosed);
  assert.match(sixth.text(), /^HTTP\/1\.1 503 .*Too many connections from your address/s);
  assert.match(sixth.text(), /retry-after: \d/);
  assert.equal((await sluice.fetch('/healthz')).status, 200, 'others are served');
  greedy[0]?.socket.destroy();
  await eventually('there is room again', async () => {
    const again = open(sluice, wholeRequest, '127.0.0.2');
    await eventually('an answer', () => again.text() !== '');
    again.socket.destroy();
    return again.text().startsWith('HTTP/1.1 200');
  });
  for (const one of greedy) one.socket.destroy();
});

test('behind proxies, requests are counted by client, not connections by proxy', async () => {
  await using sluice = await startSluice({
    config: { trustedProxies: 1, limits: { connections: { perAddress: 3 } } },
  });
  const head = (client: string) =>
    `POST /v1alpha2/container HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: ${client}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n`;
  const ofProxy = Array.from({ length: 6 }, (_, at) => open(sluice, head(`192.0.2.${at % 2}`)));
  const ask = (client: string) =>
    call(`${sluice.url}/healthz`, { headers: { 'x-forwarded-for': `203.0.113.9, ${client}` } });
  await eventually('three are in progress', async () => (await ask('192.0.2.0')).status === 429);
  const refused = await ask('192.0.2.0');
  assertApiFault(refused, 429, /3 requests from your address are in progress/);
  assert.equal(refused.headers['retry-after'], '5');
  assert.equal((await ask('192.0.2.7')).status, 200);
  for (const one of ofProxy) one.socket.destroy();
});

test('at the limit of connections, the longest idle one is closed', async () => {
  await using sluice = await startSluice(limits({ total: 8 }));
  const crowd = Array.from({ length: 8 }, () => open(sluice, ''));
  await eventually('all are connected', () => crowd.every(({ socket }) => !socket.connecting));
  assert.equal((await call(`${sluice.url}/healthz`)).status, 200);
  await eventually('one had to go', () => crowd.filter(one => one.isClosed()).length >= 1);
  for (const one of crowd) one.socket.destroy();
});

test('with few descriptors, silent connections neither stop the server nor block its answers', async () => {
  await using sluice = await startSluice({ descriptors: 200 });
  const crowd = Array.from({ length: 260 }, () => open(sluice, ''));
  await eventually('each is connected or refused', () =>
    crowd.every(one => !one.socket.connecting || one.isClosed()),
  );
  for (let count = 0; count < 20; count += 1) {
    assert.equal((await call(`${sluice.url}/healthz`)).status, 200);
  }
  assert.match(sluice.output(), /the limit of open files allows fewer connections/);
  for (const one of crowd) one.socket.destroy();
});

test('bytes that are not HTTP get an answer with the usual headers, and are not logged', async () => {
  await using sluice = await startSluice();
  for (const [text, status] of [
    ['nonsense\r\n\r\n', 400],
    ['GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n', 400],
    [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`, 431],
    ['GET / HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  ] as const) {
    const response = await raw(sluice.port, text);
    assert.ok(response.startsWith(`HTTP/1.1 ${status} `), response);
    assert.match(response, /\r\nx-content-type-options: nosniff\r\n/);
    assert.match(response, /\r\ncontent-security-policy: default-src 'none'/);
  }
  const expecting =
    'GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: cake\r\nConnection: close\r\n\r\n';
  assert.match(await raw(sluice.port, expecting), /^HTTP\/1\.1 200 /);
  await sluice.stop();
  const bad = readLog(sluice.output()).filter(({ level }) => level !== 'info');
  assert.deepEqual(bad, []);
});
