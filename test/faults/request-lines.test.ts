/** Request targets of every form, well-formed or not, on every way into the server: none ends it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { raw } from './http-client.ts';

const pairingToken = 'pairing-secret-of-the-operator';
const config = { platform: { pairingToken } };

/** The answers to one request, by their status; empty when the connection was closed without one. */
async function statusesOf(sluice: Sluice, line: string, headers = ''): Promise<number[]> {
  const head = `${line}\r\nHost: localhost\r\nConnection: close\r\n${headers}\r\n`;
  // A connection may also be reset in place of a response.
  const text = await raw(sluice.port, Buffer.from(head, 'latin1'), 10_000).catch(() => '');
  return [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
}

async function assertAlive(sluice: Sluice): Promise<void> {
  assert.equal((await sluice.fetch('/healthz')).status, 200);
  assert.equal(sluice.process.exitCode, null, sluice.output());
  await sluice.requests();
  assert.doesNotMatch(sluice.output(), /uncaught error|unexpected error/);
}

const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';

test('a request target that is not a path is refused, and the server continues', async () => {
  await using sluice = await startSluice({ config });
  for (const target of [
    ...['http://[/v2/x', 'http://[', 'http://', 'http:///v2/', 'http://a:b/v2/', 'http://a b/'],
    ...['http://user:word@a/v2/', 'http://%zz/v2/', 'ftp://a/v2/', 'ws://a/pairing/x', 'a:80', '*'],
    ...['/v2/#x', '/#', 'http://a/v2/#x', 'javascript:1', 'mailto:a@b', 'x', '?x', '', '\\', '%2f'],
  ]) {
    for (const headers of ['', upgrade]) {
      for (const method of ['GET', 'OPTIONS', 'POST', 'HEAD']) {
        const statuses = await statusesOf(sluice, `${method} ${target} HTTP/1.1`, headers);
        const isRefused = statuses.every(status => status >= 400 && status < 500);
        assert.ok(isRefused, `${method} ${target}: ${statuses}`);
      }
    }
    await statusesOf(sluice, `CONNECT ${target} HTTP/1.1`);
  }
  assert.deepEqual(await statusesOf(sluice, 'CONNECT a:80 HTTP/1.1'), [405]);
  const refused = await raw(
    sluice.port,
    'GET http://[/v2/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  );
  assert.match(refused, /^HTTP\/1\.1 400 .*The request target is not a path on this server/s);
  await assertAlive(sluice);
  assert.ok(!sluice.output().includes('user:word'), 'no password of a target is in the log');
});

test('a target in absolute form is read as its path', async () => {
  await using sluice = await startSluice({ config });
  for (const [target, status] of [
    ['http://localhost/healthz', 200],
    ['HTTPS://LOCALHOST:8443/healthz?x=1', 200],
    ['http://[::1]:9090/readyz', 200],
    ['http://localhost', 200],
    ['http://localhost?x', 200],
    ['http://localhost/v2/', 200],
    ['http://localhost/v2/token?service=x', 200],
    ['http://localhost/v2/ct/nobody/library/x/manifests/1', 404],
    ['http://localhost/platform/service-info', 200],
    ['http://localhost//healthz', 404],
    ['//[/v2/x', 404],
  ] as const) {
    assert.deepEqual(await statusesOf(sluice, `GET ${target} HTTP/1.1`), [status], target);
  }
  const path = `/pairing/tower/token/${pairingToken}?endpoint=https://platform.example`;
  const plain = await statusesOf(sluice, `GET ${path} HTTP/1.1`, upgrade);
  assert.deepEqual(
    await statusesOf(sluice, `GET http://localhost${path} HTTP/1.1`, upgrade),
    plain,
  );
  await assertAlive(sluice);
  const paths = (await sluice.requests()).map(({ path }) => path);
  assert.ok(paths.includes('/v2/ct/nobody/library/x/manifests/1'));
});

const starts = ['', '/', '//', '*', 'http://', 'HTTPS://', 'http:/', 'http:', 'ws://', 'x:', '\\'];
const hosts = [
  '',
  'localhost',
  'a',
  '[',
  '[::1]',
  '[::1',
  'a:',
  'a:99999',
  'a@b',
  'a:b@c:1',
  '%',
  'xn--',
  '..',
];
const paths = [
  ...['', '/', '/v2', '/v2/', '/v2/token', '/v2/ct/', '/v2/a/b/manifests/x', '/v2/a/tags/list'],
  ...['/v2/a/blobs/uploads/', '/pairing/x/token/y', '/platform/api', '/docs', '/metrics'],
  ...['/v1alpha1/builds/x/logs', '/v1alpha2/container/x', '/container-token/%'],
];
const byte = fc.integer({ min: 0x21, max: 0xff }).map(code => String.fromCharCode(code));
const target = fc
  .tuple(
    fc.constantFrom(...starts),
    fc.constantFrom(...hosts),
    fc.constantFrom(...paths),
    fc.array(fc.oneof(byte, fc.constantFrom('?', '#', '%', '/', '..', '\xa0', '&wait=')), {
      maxLength: 12,
    }),
  )
  .map(parts => parts.flat().join(''));
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE'];
const request = fc.tuple(fc.constantFrom(...methods), target, fc.constantFrom('', upgrade));

test('thousands of random request lines neither fail nor stop the server', async () => {
  await using sluice = await startSluice({ config });
  const requests = fc.sample(request, { seed: 12, numRuns: 4000 });
  const lanes = 20;
  const failed: string[] = [];
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      for (let at = lane; at < requests.length; at += lanes) {
        const [method, target, headers] = requests[at] ?? assert.fail();
        const statuses = await statusesOf(sluice, `${method} ${target} HTTP/1.1`, headers);
        if (statuses.some(status => status >= 500)) failed.push(`${statuses} ${method} ${target}`);
      }
    }),
  );
  assert.deepEqual(failed, []);
  await assertAlive(sluice);
});
