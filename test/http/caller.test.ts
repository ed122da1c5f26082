import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import fc from 'fast-check';
import { callerAddress, networkOf } from '../../src/http/client-address.ts';

const request = (remoteAddress: string | undefined, forwarded?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  }) as unknown as IncomingMessage;

test('without trusted proxies the header is ignored', () => {
  assert.equal(callerAddress(request('192.0.2.1', '6.6.6.6'), 0), '192.0.2.1');
  assert.equal(callerAddress(request('::ffff:192.0.2.1'), 0), '192.0.2.1');
  assert.equal(callerAddress(request('2001:db8::1'), 0), '2001:db8::1');
  assert.equal(callerAddress(request(undefined), 0), 'unknown');
});

test('as many entries are trusted as there are proxies, from the right', () => {
  for (const [header, proxies, expected] of [
    ['1.1.1.1', 1, '1.1.1.1'],
    ['6.6.6.6, 1.1.1.1', 1, '1.1.1.1'],
    ['6.6.6.6, 1.1.1.1, 10.0.0.2', 2, '1.1.1.1'],
    ['1.1.1.1,10.0.0.2', 2, '1.1.1.1'],
    ['1.1.1.1', 2, '1.1.1.1'],
    [' , 1.1.1.1 ,, ', 1, '1.1.1.1'],
    ['2001:db8::9', 1, '2001:db8::9'],
    ['[2001:db8::9]:4711', 1, '2001:db8::9'],
    ['[2001:db8::9]', 1, '2001:db8::9'],
    ['1.1.1.1:4711', 1, '1.1.1.1'],
    ['::ffff:1.1.1.1', 1, '1.1.1.1'],
    ['::ffff:0101:0101', 1, '1.1.1.1'],
    ['0:0:0:0:0:ffff:101:101', 1, '1.1.1.1'],
    ['2001:DB8:0:0::9', 1, '2001:db8::9'],
    ['1::ffff:1.2.3.4', 1, '1::ffff:102:304'],
    ['2001:[db8::9]', 1, '10.0.0.1'],
    ['[2001:db8::9]1', 1, '10.0.0.1'],
    ['x1.1.1.1:4711', 1, '10.0.0.1'],
    ['1.1.1.1:4711x', 1, '10.0.0.1'],
    ['unknown', 1, '10.0.0.1'],
    ['_hidden', 1, '10.0.0.1'],
    ['', 1, '10.0.0.1'],
  ] as const) {
    assert.equal(callerAddress(request('10.0.0.1', header), proxies), expected, header);
  }
});

test('entries left of the trusted ones have no effect', () => {
  fc.assert(
    fc.property(fc.string(), fc.ipV4(), (invented, address) => {
      assert.equal(callerAddress(request('10.0.0.1', `${invented}, ${address}`), 1), address);
    }),
  );
});

test('an IPv6 network counts as one client, each IPv4 address as its own', () => {
  for (const [address, network] of [
    ['192.0.2.1', '192.0.2.1'],
    ['unknown', 'unknown'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8::1:2:3:4:5', '2001:db8:0:1::/64'],
    ['2001::4:5:6:7:8', '2001:0:0:4::/64'],
    ['::4:5:6:7:8', '0:0:0:4::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::192.0.2.1', '0:0:0:0::/64'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ] as const) {
    assert.equal(networkOf(address), network, address);
  }
});
