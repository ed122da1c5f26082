import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEndpoints, isAllowable } from '../../src/platform/endpoint.ts';
import { isFault } from './platform-world.ts';

const own = 'https://sluice.example/platform';

test('one platform has one name, however its address is written', () => {
  const endpoints = createEndpoints({
    own,
    byDefault: undefined,
    allow: ['https://tower.example/api', 'api.cloud.seqera.io'],
    aliases: {},
  });
  for (const [address, id, base] of [
    ['https://tower.example/api', 'https://tower.example', 'https://tower.example/api'],
    ['https://tower.example/api/', 'https://tower.example', 'https://tower.example/api'],
    ['https://tower.example/', 'https://tower.example', 'https://tower.example/api'],
    ['https://tower.example//api', 'https://tower.example', 'https://tower.example/api'],
    [
      'https://api.cloud.seqera.io///',
      'https://api.cloud.seqera.io',
      'https://api.cloud.seqera.io',
    ],
    ['https://TOWER.example:443', 'https://tower.example', 'https://tower.example/api'],
    ['https://api.cloud.seqera.io', 'https://api.cloud.seqera.io', 'https://api.cloud.seqera.io'],
    ['https://api.tower.nf', 'https://api.cloud.seqera.io', 'https://api.cloud.seqera.io'],
    ['https://api.tower.nf/', 'https://api.cloud.seqera.io', 'https://api.cloud.seqera.io'],
    [own, own, own],
    [`${own}/api/`, own, own],
    [undefined, own, own],
    ['', own, own],
  ] as const) {
    const found = endpoints.resolve(address);
    assert.deepEqual([found.id, found.base], [id, base], address);
    assert.equal(found.isOwn, id === own, address);
  }
});

test('the operator sets the default platform', () => {
  const endpoints = createEndpoints({
    own,
    byDefault: 'http://10.0.0.5:8080/platform/',
    allow: [],
    aliases: {},
  });
  assert.equal(endpoints.resolve().base, 'http://10.0.0.5:8080/platform');
  assert.equal(endpoints.resolve().isOwn, false);
  assert.equal(
    endpoints.resolve('http://10.0.0.5:8080/platform/api').base,
    'http://10.0.0.5:8080/platform',
  );
  assert.equal(endpoints.resolve(own).isOwn, true);
  assert.deepEqual([...endpoints.hosts], ['10.0.0.5:8080', 'sluice.example']);
  const named = createEndpoints({ own, byDefault: `${own}/`, allow: [], aliases: {} });
  assert.equal(named.resolve().isOwn, true);
});

test('only allowed platforms are found', () => {
  const endpoints = createEndpoints({
    own,
    byDefault: undefined,
    allow: ['https://tower.example/api', 'platform.example'],
    aliases: {},
  });
  for (const address of [
    'https://evil.example',
    'https://evil.example/api',
    'https://tower.example.evil.example/api',
    'https://tower.example@evil.example/api',
    'https://tower.example/other',
    'https://tower.example/api/api',
    'https://tower.example:8443/api',
    'https://tower.example./api',
    'http://tower.example/api',
    'http://platform.example',
    'https://platform.example:444',
    'https://sluice.example',
    'https://tower.example/api?x=1',
    'https://tower.example/api#x',
    'ftp://tower.example/api',
    'file:///etc/passwd',
    'tower.example',
    'nonsense',
    `https://tower.example/${'x'.repeat(3000)}`,
  ]) {
    assert.throws(() => endpoints.resolve(address), isFault('bad-request', /platform/i), address);
  }
  assert.equal(
    endpoints.resolve('https://platform.example/deep/api').id,
    'https://platform.example/deep',
  );
});

test('an address that clients always send may stand for another platform', () => {
  const common = { own, byDefault: undefined, allow: ['old.example'] };
  const endpoints = createEndpoints({
    ...common,
    aliases: {
      'https://api.cloud.seqera.io': 'built-in',
      'https://old.example': 'https://tower.example/api',
    },
  });
  for (const address of ['https://api.cloud.seqera.io/', 'https://api.tower.nf/api']) {
    assert.deepEqual(endpoints.resolve(address), endpoints.resolve(own), address);
    assert.equal(endpoints.resolve(address).isOwn, true);
  }
  // Also where its host is allowed, and the platform behind it needs no other mention.
  assert.equal(endpoints.resolve('https://old.example/api').base, 'https://tower.example/api');
  assert.equal(endpoints.resolve('https://tower.example').base, 'https://tower.example/api');
  assert.throws(
    () => endpoints.resolve('https://else.example'),
    isFault(
      'bad-request',
      /'platformEndpoint': .* else\.example\. Set the field to https:\/\/sluice\.example\/platform or leave it out/,
    ),
  );
  for (const aliases of [
    { [own]: 'https://tower.example' },
    { 'https://a.example': 'https://b.example', 'https://b.example': 'built-in' },
  ]) {
    assert.throws(() => createEndpoints({ ...common, aliases }), /platform\.aliases: .* also/);
  }
});

test('the list accepts addresses and hosts', () => {
  for (const entry of [
    'tower.example',
    'tower.example:8443',
    '[::1]:8080',
    'https://a/api',
    'http://a:1/b',
  ]) {
    assert.equal(isAllowable(entry), true, entry);
  }
  for (const entry of ['', 'ftp://a', 'a b', 'https://u:p@a', 'https://', 'a/b', '*', 'a:99999']) {
    assert.equal(isAllowable(entry), false, entry);
  }
});
