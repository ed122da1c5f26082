import assert from 'node:assert/strict';
import dns from 'node:dns/promises';
import { syncBuiltinESMExports } from 'node:module';
import { mock, test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { defaultRegistrySettings, privateHostsOf } from '../../src/upstream/registry-settings.ts';
import {
  checkAddress,
  checkName,
  closedAddressIn,
  guardedLookup,
  isPublicAddress,
  publicAddressOf,
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

test('each closed network ends where it ends', () => {
  for (const [before, first, last, after] of [
    ['', '0.0.0.0', '0.255.255.255', '1.0.0.0'],
    ['9.255.255.255', '10.0.0.0', '10.255.255.255', '11.0.0.0'],
    ['100.63.255.255', '100.64.0.0', '100.127.255.255', '100.128.0.0'],
    ['126.255.255.255', '127.0.0.0', '127.255.255.255', '128.0.0.0'],
    ['169.253.255.255', '169.254.0.0', '169.254.255.255', '169.255.0.0'],
    ['172.15.255.255', '172.16.0.0', '172.31.255.255', '172.32.0.0'],
    ['191.255.255.255', '192.0.0.0', '192.0.0.255', '192.0.1.0'],
    ['192.0.1.255', '192.0.2.0', '192.0.2.255', '192.0.3.0'],
    ['192.167.255.255', '192.168.0.0', '192.168.255.255', '192.169.0.0'],
    ['198.17.255.255', '198.18.0.0', '198.19.255.255', '198.20.0.0'],
    ['198.51.99.255', '198.51.100.0', '198.51.100.255', '198.51.101.0'],
    ['203.0.112.255', '203.0.113.0', '203.0.113.255', '203.0.114.0'],
    ['223.255.255.255', '224.0.0.0', '255.255.255.255', ''],
    ['3ffe:ffff::', '3fff::', '3fff:fff:ffff::', '3fff:1000::'],
    ['2001:db7:ffff::', '2001:db8::', '2001:db8:ffff::', '2001:db9::'],
    ['2000:ffff::', '2001::', '2001:1ff:ffff::', '2001:200::'],
    ['2001:ffff::', '2002::', '2002:ffff::', '2003::'],
    ['', '::', '1fff:ffff::', '2000::'],
    ['3fff:ffff::', '4000::', 'ffff::', ''],
  ] as const) {
    for (const open of [before, after]) if (open) assert.ok(isPublicAddress(open), open);
    for (const closed of [first, last]) assert.ok(!isPublicAddress(closed), closed);
  }
  assert.ok(isPublicAddress('2606:4700::1111%eth0'), 'a zone does not matter');
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

const publicV4 = { address: '192.88.99.1', family: 4 };
const publicV6 = { address: '2606:4700::1', family: 6 };
const closedV4 = { address: '10.0.0.1', family: 4 };

/** The names below `test`: a name server that each of them has other addresses at. */
const records: Record<string, { address: string; family: number }[]> = {
  'public.test': [publicV6, publicV4],
  'mixed.test': [publicV4, closedV4],
  'closed.test': [closedV4],
  'six.test': [publicV6],
  'none.test': [],
};
const systemLookup = dns.lookup;
mock.method(dns, 'lookup', async (hostname: string) => {
  if (!hostname.endsWith('.test')) return systemLookup(hostname, { all: true });
  const found = records[hostname];
  if (!found) throw Object.assign(new Error(`ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' });
  return found;
});
syncBuiltinESMExports();

/** Returns what a connection to the host gets from its look-up. */
function lookedUp(hostname: string, options: object): Promise<unknown[]> {
  const { promise, resolve } = Promise.withResolvers<unknown[]>();
  guardedLookup(`${hostname}:443`)(hostname, options, (...results) => resolve(results));
  return promise;
}

test('a name with one closed address among others is refused everywhere', async () => {
  for (const name of ['mixed.test', 'closed.test']) {
    const url = new URL(`https://${name}:443/x`);
    const isRefused = (error: unknown) =>
      error instanceof Fault && error.message.startsWith(`'${name}' is at a loopback`);
    for (const all of [true, false]) {
      const [error, ...others] = await lookedUp(name, { all });
      assert.ok(closedAddressIn(error), name);
      assert.deepEqual(others, ['', 0]);
    }
    await assert.rejects(checkName(url), isRefused);
    await assert.rejects(publicAddressOf(url), isRefused);
  }
});

test('a connection gets the public addresses of the family that it wants', async () => {
  for (const [name, options, expected] of [
    ['public.test', { all: true }, [null, [publicV6, publicV4]]],
    ['public.test', {}, [null, publicV6.address, 6]],
    ['public.test', { family: 0 }, [null, publicV6.address, 6]],
    ['public.test', { family: 4 }, [null, publicV4.address, 4]],
    ['public.test', { family: 'IPv4' }, [null, publicV4.address, 4]],
    ['public.test', { family: 6, all: true }, [null, [publicV6]]],
  ] as const) {
    assert.deepEqual(await lookedUp(name, options), expected);
  }
});

test('a name without an address, or without one of the family, is a failure of the connection', async () => {
  for (const [name, options, message] of [
    ['six.test', { family: 4 }, /^'six\.test' has no IPv4 address$/],
    ['none.test', {}, /^'none\.test' has no IPv/],
    ['unknown.test', {}, /^ENOTFOUND unknown\.test$/],
  ] as const) {
    const [error, ...others] = await lookedUp(name, options);
    assert.ok(error instanceof Error && !closedAddressIn(error));
    assert.match(error.message, message);
    assert.deepEqual(others, ['', 0]);
  }
  await checkName(new URL('https://unknown.test/'));
  await assert.rejects(publicAddressOf(new URL('https://unknown.test/')), { code: 'ENOTFOUND' });
});

test('the address of a host is one of IPv4 if it has one', async () => {
  for (const [host, address] of [
    ['public.test', publicV4.address],
    ['six.test', publicV6.address],
    ['[2606:4700::1]', publicV6.address],
    ['none.test', 'none.test'],
  ] as const) {
    await checkName(new URL(`https://${host}/`));
    assert.equal(await publicAddressOf(new URL(`https://${host}/`)), address);
  }
  for (const check of [checkName, publicAddressOf]) {
    await assert.rejects(check(new URL('https://[::1]/')), Fault);
  }
});

test('a closed address is found among the causes of an error, up to the eighth', async () => {
  const closed = await checkName(new URL('http://127.0.0.1/')).catch((error: unknown) => error);
  const wrapped = (times: number): unknown =>
    times === 0 ? closed : new Error('failed', { cause: wrapped(times - 1) });
  for (const error of [closed, wrapped(1), wrapped(7), new AggregateError([wrapped(2)])]) {
    assert.equal(closedAddressIn(error), closed);
  }
  const circle = new Error('a circle');
  circle.cause = circle;
  for (const error of [wrapped(8), circle, new Error('x'), 'text', undefined]) {
    assert.equal(closedAddressIn(error), undefined);
  }
});
