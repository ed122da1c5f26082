/** The hosts that a server answers to, without a server. `own-host.test.ts` has the same with real requests. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { mock, test } from 'node:test';
import { admitHandedOn } from '../../src/http/callers/handed-on.ts';
import { createHostCheck, requireOwnHost } from '../../src/http/gates/own-host.ts';

const names = ['images.example.com', 'Sluice.internal', '192.0.2.7', '2001:DB8:0::7'];
const networks = ['10.1.0.0/16', '2001:db8:1::/48'];
const usual = { names, networks, hasAllAddresses: false };

let machine = ['198.51.100.4'];
mock.method(os, 'networkInterfaces', () => ({
  eth0: machine.map(address => ({ address })),
  lo: undefined,
}));
syncBuiltinESMExports();

interface Asked {
  host?: string | undefined;
  target?: string;
  version?: string;
  /** The headers as they were sent; default: the host. */
  raw?: string[];
  localAddress?: string | undefined;
}

function requestOf({ host, target = '/', version = '1.1', raw, localAddress }: Asked) {
  return {
    ...{ headers: { host }, httpVersion: version, url: target },
    rawHeaders: raw ?? (host === undefined ? [] : ['Host', host]),
    socket: { localAddress },
  } as unknown as IncomingMessage;
}

/** Returns the kind of the refusal; undefined for an own host. */
const check = (asked: Asked, own = usual) => createHostCheck(own)(requestOf(asked))?.kind;

test('its names and addresses are its own in every spelling, with any port', () => {
  for (const name of [
    ...['localhost', '127.0.0.1', '[::1]', '[0:0:0:0:0:0:0:1]', 'LOCALHOST', 'localhost.'],
    ...['images.example.com', 'IMAGES.example.com.', 'sluice.internal', '192.0.2.7'],
    ...['[2001:db8::7]', '[2001:0db8::0007]', '[::ffff:192.0.2.7]'],
  ]) {
    for (const host of [name, `${name}:443`, `${name}:`]) {
      assert.equal(check({ host }), undefined, host);
    }
  }
});

test('all other names and addresses are not', () => {
  for (const host of [
    ...['evil.example', 'images.example.com.evil.example', 'evil.images.example.com'],
    ...['images.example.com..', '192.0.2.8', '[2001:db8::8]', '198.51.100.4', '127.0.0.2'],
  ]) {
    assert.equal(check({ host }), 'misdirected', host);
    assert.equal(check({ host: `${host}:80` }), 'misdirected', host);
  }
});

test('addresses in its networks are its own, and no names', () => {
  for (const [host, isOwn] of [
    ['10.1.0.0', true],
    ['10.1.255.255', true],
    ['10.2.0.0', false],
    ['10.0.255.255', false],
    ['[::ffff:10.1.2.3]', true],
    ['[2001:db8:1:ffff::1]', true],
    ['[2001:db8:2::1]', false],
    ['10.1.evil.example', false],
  ] as const) {
    assert.equal(check({ host }), isOwn ? undefined : 'misdirected', host);
  }
  assert.equal(check({ host: '10.1.0.0' }, { ...usual, networks: [] }), 'misdirected');
});

test('the address that the connection has reached is its own', () => {
  assert.equal(check({ host: '203.0.113.5:80', localAddress: '203.0.113.5' }), undefined);
  assert.equal(check({ host: '203.0.113.5', localAddress: '::ffff:203.0.113.5' }), undefined);
  assert.equal(check({ host: '[2001:db8:9::1]', localAddress: '2001:db8:9:0::1' }), undefined);
  assert.equal(check({ host: '203.0.113.6', localAddress: '203.0.113.5' }), 'misdirected');
});

test('the addresses of the machine are its own only where it listens on all, and are read again later', t => {
  let now = 1000;
  t.mock.method(performance, 'now', () => now);
  const own = createHostCheck({ ...usual, hasAllAddresses: true });
  const kind = (host: string) => own(requestOf({ host }))?.kind;
  assert.equal(check({ host: '198.51.100.4' }), 'misdirected');
  assert.equal(kind('198.51.100.4'), undefined);
  assert.equal(kind('198.51.100.5'), 'misdirected');
  machine = ['198.51.100.5', '::FFFF:198.51.100.6'];
  now += 9999;
  assert.equal(kind('198.51.100.4'), undefined);
  assert.equal(kind('198.51.100.5'), 'misdirected');
  now += 1;
  assert.equal(kind('198.51.100.4'), 'misdirected', 'an address is not remembered for ever');
  assert.equal(kind('198.51.100.5'), undefined);
  assert.equal(kind('198.51.100.6'), undefined);
});

test('a missing, malformed or repeated Host is a bad request', () => {
  for (const asked of [
    { host: undefined },
    { host: '' },
    { host: 'localhost', raw: ['Host', 'localhost', 'accept', '*/*', 'hOsT', 'localhost'] },
    { host: 'localhost', raw: ['host', 'localhost', 'HOST', 'evil.example'], version: '1.0' },
    ...[
      ...['user@localhost', 'localhost:x', 'localhost:123456', 'local host', '::1', '[::1'],
      ...['[localhost]', '[1.2.3.4]', 'localhost/', 'http://localhost', '[fe80::1%25lo]'],
      ...['a'.repeat(256), '[]', '[::]x', ':80', 'localhost:80:80', '[abc]', '[::1]]'],
    ].map(host => ({ host })),
  ]) {
    assert.equal(check(asked), 'bad-request', asked.host);
  }
  assert.equal(check({ host: 'a'.repeat(255) }), 'misdirected');
  const said = (asked: Asked) => createHostCheck(usual)(requestOf(asked))?.message ?? '';
  assert.match(said({ host: undefined }), /^The request has no Host header: send one/);
  assert.match(said({ host: '::1' }), /^The Host header is not a host with an optional port/);
  assert.match(said({ host: 'a', raw: ['Host', 'a', 'Host', 'a'] }), /more than one Host header/);
  const others = ['from', 'x', 'x-host', 'evil.example', 'hosts', 'evil.example', 'accept', 'host'];
  assert.equal(check({ host: 'localhost', raw: ['host', 'localhost', ...others] }), undefined);
});

test('HTTP/1.0 needs no Host, and one that it sends counts', () => {
  assert.equal(check({ host: undefined, version: '1.0' }), undefined);
  assert.equal(check({ host: 'evil.example', version: '1.0' }), 'misdirected');
});

test('the authority of a target in absolute form counts instead of Host', () => {
  for (const [target, host, kind] of [
    ['http://localhost/x', 'evil.example', undefined],
    ['HTTPS://localhost:80?x', 'evil.example', undefined],
    ['http://evil.example/x', 'localhost', 'misdirected'],
    ['http://evil.example', 'localhost', 'misdirected'],
    ['http://user@localhost/', 'localhost', 'bad-request'],
    ['/http://evil.example/', 'localhost', undefined],
    ['x://evil.example/http://localhost/', 'evil.example', 'misdirected'],
    ['*', 'localhost', undefined],
    ['*', 'evil.example', 'misdirected'],
    ['http:///x', 'evil.example', 'misdirected'],
  ] as const) {
    assert.equal(check({ target, host }), kind, `${target} ${host}`);
  }
  const own = createHostCheck(usual);
  const evil = 'http://evil.example/';
  assert.equal(own(requestOf({ host: 'localhost' }), evil)?.kind, 'misdirected');
  const without = requestOf({ host: 'localhost' });
  delete without.url;
  assert.equal(own(without), undefined);
});

test('what was accepted stays accepted, and what was refused stays refused', () => {
  const own = createHostCheck(usual);
  for (let time = 0; time < 2; time += 1) {
    for (let port = 1; port <= 150; port += 1) {
      assert.equal(own(requestOf({ host: `localhost:${port}` })), undefined);
      assert.equal(own(requestOf({ host: `evil.example:${port}` }))?.kind, 'misdirected');
    }
  }
});

test('a request that another replica has checked is not checked again', () => {
  const request = requestOf({ host: 'other-replica' });
  const headers = { 'sluice-replica': 'proof', 'sluice-peer': '192.0.2.1' };
  Object.assign(request.headers, headers);
  assert.equal(createHostCheck(usual)(request)?.kind, 'misdirected', 'the headers prove nothing');
  assert.ok(admitHandedOn(request, 'proof'));
  assert.equal(createHostCheck(usual)(request), undefined);
});

test('the check of a route looks at the target as it was sent', () => {
  const gate = requireOwnHost(createHostCheck(usual));
  type Context = Parameters<typeof gate>[0];
  const context = (originalUrl: string) =>
    ({ req: requestOf({ host: 'localhost' }), originalUrl }) as unknown as Context;
  gate(context('/'));
  assert.throws(() => gate(context('http://evil.example/')), { kind: 'misdirected' });
});
