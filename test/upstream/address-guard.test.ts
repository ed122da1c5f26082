import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { defaultRegistrySettings, privateHostsOf } from '../../src/upstream/registry-settings.ts';
import {
  checkAddress,
  guardedLookup,
  isPublicAddress,
} from '../../src/upstream/transport/address-guard.ts';

const closed = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '10.255.255.255',
  '100.64.0.1',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.255.254',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.2.5',
  '192.168.0.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.7',
  '203.0.113.9',
  '224.0.0.1',
  '239.1.2.3',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:8.8.8.8',
  '::ffff:7f00:1',
  '::127.0.0.1',
  '::8.8.8.8',
  '64:ff9b::7f00:1',
  '64:ff9b::808:808',
  '64:ff9b:1::1',
  '100::1',
  '2001::1',
  '2001:0:1:2::3',
  '2001:10::1',
  '2001:db8::1',
  '2002:7f00:1::1',
  '3fff::1',
  'fc00::1',
  'fd12:3456::1',
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'ff02::1',
  '5f00::1',
  'localhost',
  '',
  '1',
  '127.1',
  '0x7f.1',
  '8.8.8.8.8',
  '[::1]',
];
const open = [
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.1',
  '100.63.255.255',
  '100.128.0.1',
  '126.255.255.255',
  '128.0.0.1',
  '169.253.0.1',
  '169.255.0.1',
  '172.15.255.255',
  '172.32.0.1',
  '192.0.1.1',
  '192.167.0.1',
  '198.17.0.1',
  '198.20.0.1',
  '223.255.255.255',
  '2606:4700::1111',
  '2a00:1450:4001::1',
  '2001:4860:4860::8888',
  '2001:200::1',
  '2003::1',
];

test('closed addresses', () => {
  for (const address of closed) assert.equal(isPublicAddress(address), false, address);
});

test('open addresses', () => {
  for (const address of open) assert.equal(isPublicAddress(address), true, address);
});

test('no spelling of an embedded IPv4 address makes it public', () => {
  fc.assert(
    fc.property(
      fc.ipV4(),
      fc.constantFrom('::ffff:', '::', '64:ff9b::', '::ffff:0:'),
      (v4, prefix) => {
        assert.equal(isPublicAddress(prefix + v4), false);
      },
    ),
  );
});

test('every spelling that a URL allows reaches the guard as an address', () => {
  for (const host of [
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '017700000001',
    '127.1',
    '0x7f.1',
    '[::1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:10.0.0.1]',
    '169.254.169.254',
    '%31%32%37.0.0.1',
    '１２７.0.0.1',
    '127.0.0.1.',
  ]) {
    assert.throws(
      () => checkAddress(new URL(`http://${host}/x`), () => false),
      (error: unknown) =>
        error instanceof Fault && error.status === 400 && /closed network/.test(error.message),
      host,
    );
  }
  checkAddress(new URL('http://8.8.8.8/'), () => false);
  checkAddress(new URL('http://registry.example.com/'), () => false);
});

test('a host is allowed with its exact port', () => {
  const settings = { ...defaultRegistrySettings, allowPrivateAddress: true };
  const isAllowed = privateHostsOf(
    new Map([
      ['127.0.0.1:5000', { ...settings, tokenHosts: ['127.0.0.1:5001'] }],
      ['10.0.0.1', settings],
      ['10.0.0.2:443', settings],
      ['10.0.0.3', { ...settings, allowPrivateAddress: false, tokenHosts: ['10.0.0.4'] }],
    ]),
  );
  for (const host of ['127.0.0.1:5000', '127.0.0.1:5001', '10.0.0.1', '10.0.0.2']) {
    assert.ok(isAllowed(host), host);
  }
  for (const host of ['127.0.0.1:5002', '127.0.0.1', '10.0.0.1:8080', '10.0.0.3', '10.0.0.4']) {
    assert.ok(!isAllowed(host), host);
  }
});

test('a name that resolves to a closed address is refused after the look-up', async () => {
  for (const all of [true, false]) {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    guardedLookup('localhost:5000')('localhost', { all }, error => resolve(error));
    const error = await promise;
    assert.ok(error instanceof Fault);
    assert.match(error.message, /'localhost:5000' is at a loopback/);
  }
});
