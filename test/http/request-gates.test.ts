/** The checks of pages and builders before all routes, without a server. `foreign-pages.test.ts` has them with real requests. */
import assert from 'node:assert/strict';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { keepBuildersToImages } from '../../src/http/gates/builder-paths.ts';
import { createCrossOrigin } from '../../src/http/gates/cross-origin.ts';
import {
  mayUpgrade,
  refuseForeignForms,
  refuseForeignPages,
} from '../../src/http/gates/foreign-page.ts';
import type { Check } from '../../src/http/request-state.ts';

const publicUrl = new URL('https://images.example.com/');
const host = 'inside.example.com:9090';
const evil = 'https://evil.example';

interface Sent {
  readonly method?: string | undefined;
  readonly headers?: IncomingHttpHeaders;
  readonly url?: string;
}

/** Returns the kind of the refusal; undefined for an admitted request. */
function refusal(check: Check, { method, headers = {}, url = '/' }: Sent): string | undefined {
  try {
    const req = { method, headers: { host, ...headers }, url };
    check({ req, originalUrl: url } as unknown as Parameters<Check>[0]);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof Fault);
    assert.equal(error.phase, 'request');
    return error.kind;
  }
}

const ownHeaders: readonly IncomingHttpHeaders[] = [
  {},
  { origin: publicUrl.origin },
  ...[`http://${host}`, `https://${host}`].map(origin => ({ origin })),
  { 'sec-fetch-site': 'same-origin', origin: publicUrl.origin },
  { 'sec-fetch-site': 'none' },
];
const foreignHeaders: readonly IncomingHttpHeaders[] = [
  ...[evil, 'null', 'http://images.example.com', `https://${host}0`, ''].map(origin => ({
    origin,
  })),
  ...['cross-site', 'same-site', ''].map(site => ({ 'sec-fetch-site': site })),
  { 'sec-fetch-site': 'cross-site', origin: publicUrl.origin },
  { 'sec-fetch-site': 'same-origin', origin: evil },
];
const reading = ['GET', 'HEAD', 'OPTIONS'];
const changing = ['POST', 'PUT', 'PATCH', 'DELETE', 'get', undefined];
const upgrade = 'WebSocket';

test('a page of another origin may read, and change nothing', () => {
  const check = refuseForeignPages(publicUrl);
  for (const method of [...reading, ...changing]) {
    for (const headers of ownHeaders) assert.equal(refusal(check, { method, headers }), undefined);
    const expected = reading.includes(method ?? '') ? undefined : 'denied';
    for (const headers of foreignHeaders) {
      assert.equal(refusal(check, { method, headers }), expected, JSON.stringify(headers));
    }
  }
});

test('a page of a listed origin may change something, and opens no WebSocket', () => {
  const check = refuseForeignPages(publicUrl, ({ headers }) => headers.origin === evil);
  const headers = { origin: evil };
  assert.equal(refusal(check, { method: 'POST', headers }), undefined);
  assert.equal(refusal(check, { method: 'POST', headers: { origin: 'null' } }), 'denied');
  for (const method of ['GET', 'POST']) {
    assert.equal(refusal(check, { method, headers: { ...headers, upgrade } }), 'denied');
    assert.equal(refusal(check, { method, headers: { upgrade } }), undefined);
  }
  assert.equal(
    refusal(check, { method: 'GET', headers: { ...headers, upgrade: 'h2c' } }),
    undefined,
  );
});

test('a form with a cookie says which page of this server sent it', () => {
  const check = refuseForeignForms(publicUrl);
  const cookie = 'session=1';
  for (const headers of foreignHeaders) {
    assert.equal(refusal(check, { method: 'GET', headers }), undefined);
    assert.equal(refusal(check, { method: 'POST', headers }), 'denied');
    assert.equal(refusal(check, { method: 'POST', headers: { ...headers, cookie } }), 'denied');
  }
  for (const headers of ownHeaders) {
    assert.equal(refusal(check, { method: 'POST', headers }), undefined);
    const expected = Object.keys(headers).length === 0 ? 'denied' : undefined;
    assert.equal(refusal(check, { method: 'POST', headers: { ...headers, cookie } }), expected);
  }
  assert.equal(refusal(check, { method: undefined, headers: { cookie } }), 'denied');
});

test('a WebSocket is for pairing, and of no foreign page', () => {
  const may = (url: string | undefined, headers: IncomingHttpHeaders = {}) =>
    mayUpgrade({ url, headers: { host, ...headers } } as IncomingMessage, publicUrl);
  for (const url of ['/pairing/one', `http://${host}/pairing/one`]) assert.equal(may(url), true);
  for (const url of [undefined, '', '/', '/pairing', '/v2/pairing/', '/x/pairing/one', '*']) {
    assert.equal(may(url), false, url);
  }
  for (const headers of ownHeaders) assert.equal(may('/pairing/one', headers), true);
  for (const headers of foreignHeaders) assert.equal(may('/pairing/one', headers), false);
});

test('a builder gets images and lock files, and nothing else', () => {
  const check = (url: string, agent?: string) =>
    refusal(keepBuildersToImages, {
      url,
      headers: agent === undefined ? {} : { 'user-agent': agent },
    });
  const lock = '/v1alpha1/builds/0af_1';
  const images = ['/v2', '/v2/', '/v2?x', '/v2/a/manifests/1'];
  const locks = ['condalock', 'condalock?x=1', 'lock', 'lock?x'].map(file => `${lock}/${file}`);
  const others = [
    ...['/', '/v2x', '/v1alpha2/container', '/metrics', '/x/v2/a', '/x?/v2/', `/x${lock}/lock`],
    ...['lock/x', 'locks', 'logs', 'condalock2'].map(file => `${lock}/${file}`),
    ...['/v1alpha1/builds//lock', '/v1alpha1/builds/x/lock', '/v1alpha1/builds/0/../lock'],
  ];
  for (const agent of ['buildkit/v0.34.2', 'git/2.53.0']) {
    for (const url of [...images, ...locks]) assert.equal(check(url, agent), undefined, url);
    for (const url of others) assert.equal(check(url, agent), 'denied', url);
  }
  for (const agent of [undefined, 'curl/8', 'my buildkit/1', 'buildkit', 'gitea/1']) {
    for (const url of others) assert.equal(check(url, agent), undefined, agent);
  }
});

interface Exchange {
  readonly varied: string[];
  readonly headers: Record<string, string>;
  status: number | undefined;
  goesOn: boolean;
}

/** Returns what the rules for origins add to the response. */
async function respondTo(
  origins: readonly string[],
  method: string,
  sent: IncomingHttpHeaders,
): Promise<Exchange> {
  const seen: Exchange = { varied: [], headers: {}, status: undefined, goesOn: false };
  const context = {
    ...{ method, req: { headers: sent } },
    get: (name: string) => sent[name] ?? '',
    vary: (name: string) => void seen.varied.push(name),
    set: (given: string | Record<string, string>, value = '') =>
      void Object.assign(seen.headers, typeof given === 'string' ? { [given]: value } : given),
    set status(value: number) {
      seen.status = value;
    },
  };
  const { respond } = createCrossOrigin(origins);
  await respond(context as unknown as Parameters<typeof respond>[0], async () => {
    seen.goesOn = true;
  });
  return seen;
}

const portal = 'https://portal.example.org';

test('pages of listed origins see responses, and no other pages do', async () => {
  for (const method of ['GET', 'OPTIONS']) {
    const { headers, varied, goesOn } = await respondTo([portal], method, { origin: portal });
    assert.equal(headers['access-control-allow-origin'], portal);
    assert.deepEqual(Object.keys(headers), [
      ...['access-control-allow-origin', 'access-control-expose-headers'],
    ]);
    assert.match(String(headers['access-control-expose-headers']), /^Accept-Ranges, .*, X-Request/);
    assert.deepEqual([varied, goesOn], [['Origin'], true]);
  }
  const preflight = { 'access-control-request-method': 'POST' };
  for (const sent of [{}, { origin: evil }, { origin: '*' }, { origin: '' }, { origin: 'null' }]) {
    const other = await respondTo([portal], 'OPTIONS', { ...sent, ...preflight });
    assert.deepEqual(other, { varied: ['Origin'], headers: {}, status: undefined, goesOn: true });
  }
});

test('with a star, every page sees responses, without the credentials of its browser', async () => {
  const { headers, varied } = await respondTo(['*'], 'GET', { origin: evil });
  assert.equal(headers['access-control-allow-origin'], '*');
  assert.equal(headers['access-control-allow-credentials'], undefined);
  assert.deepEqual(varied, []);
  assert.deepEqual((await respondTo(['*'], 'GET', {})).headers, {});
});

test('a preflight request is answered, and goes no further', async () => {
  const sent = { origin: portal, 'access-control-request-method': 'PUT' };
  const { headers, status, goesOn } = await respondTo([portal], 'OPTIONS', sent);
  assert.deepEqual([status, goesOn], [204, false]);
  assert.deepEqual(headers, {
    'access-control-allow-origin': portal,
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'access-control-allow-headers':
      'Accept, Accept-Version, Authorization, Content-Encoding, Content-Range, Content-Type, If-None-Match, If-Range, Range',
    'access-control-max-age': '7200',
  });
  assert.equal((await respondTo([portal], 'PUT', sent)).goesOn, true);
});
