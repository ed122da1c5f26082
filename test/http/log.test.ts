import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withoutToken } from '../../src/foundation/telemetry.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { processorMs } from '../world/processor-time.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { basic } from './platform/platform-server.ts';

test('secrets are not in the log, also in unexpected places', async () => {
  await using sluice = await startSluice({
    config: { platform: { pairingToken: 'pairing-secret-of-the-operator' } },
  });
  // A proxy that does not pass on the upgrade turns pairings into plain requests.
  for (const path of [
    '/pairing/tower/token/pairing-secret-of-the-operator?endpoint=https://tower.example',
    '/pairing/tower/token/pairing-secret-of-the-operator/',
    '/proxy/pairing//token/x/pairing-secret-of-the-operator',
    `/platform/tokens/sluice_${'0a'.repeat(20)}`,
  ]) {
    assert.ok([403, 404].includes((await sluice.fetch(path)).status), path);
  }
  const paths = (await sluice.requests()).map(({ path }) => path);
  assert.deepEqual(paths, [
    '/pairing/tower/token/<token>',
    '/pairing/tower/token/<token>',
    '/proxy/pairing//token/<token>',
    '/platform/tokens/<token>',
  ]);
  assert.ok(!sluice.output().includes('secret-of'));
});

test('a path of any length is cleared of tokens at once', () => {
  for (const piece of ['/pairing/', '/pairing//token/', '/token/', `${'a'.repeat(31)}1`, '/a']) {
    const text = piece.repeat(16_000 / piece.length);
    const ms = processorMs(() => {
      for (let count = 0; count < 10; count += 1) withoutToken(text);
    });
    // Far above the usual time; a backtracking pattern takes seconds.
    assert.ok(ms < 1500, `${piece}: ${ms} ms`);
  }
});

test('text that is not a token stays', () => {
  for (const text of ['/platform/tokens/17', 'a pairing of the token', '/v2/pairing/tags/list']) {
    assert.equal(withoutToken(text), text);
  }
});

test('the log has the client address of each request, and its caller', async () => {
  await using sluice = await startSluice({
    config: { accounts: { admin: 'secret' }, trustedProxies: 1 },
  });
  const token = await newAccessToken(
    sluice,
    { name: 'admin', password: 'secret' },
    'ada@example.org',
  );
  const before = (await sluice.requests()).length;
  const json = { 'content-type': 'application/json', 'x-forwarded-for': '::ffff:192.0.2.7' };
  const body = JSON.stringify({ containerImage: '127.0.0.1:1/x', platformAccessToken: token });
  const login = await sluice.fetch('/v2/token?scope=repository:team/app:pull', {
    headers: { ...json, authorization: basic('admin', 'secret') },
  });
  const { token: bearer } = (await login.json()) as { token: string };
  const calls = [
    ['/healthz', {}],
    ['/v1alpha2/container', { method: 'POST', body }],
    ['/v1alpha1/inspect', { method: 'POST', body }],
    ['/platform/user-info', { headers: { ...json, authorization: `Bearer ${token}` } }],
    ['/platform/users', { headers: { ...json, authorization: basic('admin', 'secret') } }],
    ['/v2/team/app/tags/list', { headers: { ...json, authorization: `Bearer ${bearer}` } }],
    ['/platform/users', { headers: { ...json, authorization: basic('admin', 'wrong') } }],
  ] as const;
  for (const [path, init] of calls) {
    await (await sluice.fetch(path, { headers: json, ...init })).arrayBuffer();
  }
  const lines = (await sluice.requests()).slice(before) as unknown as Record<string, unknown>[];
  assert.deepEqual(
    lines.map(({ client, user, account }) => [client, user, account]),
    [
      ['192.0.2.7', undefined, 'admin'],
      ['192.0.2.7', undefined, undefined],
      ['192.0.2.7', 'ada@example.org', undefined],
      ['192.0.2.7', 'ada@example.org', undefined],
      ['192.0.2.7', 'ada@example.org', undefined],
      ['192.0.2.7', undefined, 'admin'],
      ['192.0.2.7', undefined, 'admin'],
      ['192.0.2.7', undefined, undefined],
    ],
  );
});

test('the log has the ids of the proxy in front, and of the trace', async () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const headers = (parent: string) => ({
    'x-request-id': 'of-the-proxy.1',
    traceparent: parent,
  });
  const good = `00-${trace}-00f067aa0ba902b7-01`;
  const idsIn = (sluice: Sluice, path: string) => {
    const line =
      sluice
        .output()
        .split('\n')
        .find(line => line.includes(`"${path}"`)) ?? '{}';
    const { proxyRequestId, traceId } = JSON.parse(line) as Record<string, string>;
    return [proxyRequestId, traceId];
  };
  await using behind = await startSluice({ config: { trustedProxies: 1 } });
  await behind.fetch('/behind', { headers: headers(good) });
  for (const [at, parent] of [
    '',
    'ff' + good.slice(2),
    `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
    `00-${trace}`,
    'x'.repeat(4000),
  ].entries()) {
    await behind.fetch(`/wrong-${at}`, {
      headers: { 'x-request-id': 'a b'.repeat(at), traceparent: parent },
    });
  }
  await behind.requests();
  assert.deepEqual(idsIn(behind, '/behind'), ['of-the-proxy.1', trace]);
  for (let at = 0; at < 5; at += 1) {
    assert.deepEqual(idsIn(behind, `/wrong-${at}`), [undefined, undefined]);
  }
  await using alone = await startSluice();
  await alone.fetch('/alone', { headers: headers(good) });
  await alone.requests();
  assert.deepEqual(idsIn(alone, '/alone'), [undefined, trace]);
});
