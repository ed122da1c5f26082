/** Which builds share the state of a builder. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  anonymousDomain,
  createLabelOf,
  domainLabel,
  domainOf,
  domainOfCaller,
  mustBeAlone,
} from '../../src/builds/domain.ts';
import type { BuildOptions } from '../../src/builds/plan/build-options.ts';

const ada = { id: '1', owner: 'ada', isTrusted: true };
const plain = { options: {} };

test('each user has a domain, each limit of a token another one, and all strangers share theirs', () => {
  const usual = domainOf(ada, plain);
  assert.deepEqual(usual, { name: 'user ada', callerKind: 'known', isAlone: false });
  assert.deepEqual(domainOf({ ...ada, id: '2' }, {}), usual, 'builds share it');
  assert.deepEqual(domainOfCaller(ada), usual);
  const others = [
    domainOf({ ...ada, owner: 'bob' }, plain),
    domainOf({ ...ada, limits: ' ["a/*"]' }, plain),
    domainOf({ ...ada, isTrusted: false }, plain),
  ].map(({ name }) => name);
  assert.equal(new Set([usual.name, ...others]).size, 4);
  const anonymous = domainOf({ id: '3', owner: 'network', isTrusted: false, limits: 'x' }, plain);
  assert.deepEqual(anonymous, { name: 'strangers', callerKind: 'anonymous', isAlone: false });
  assert.equal(anonymous, anonymousDomain);
});

test('a build whose secrets or proxy BuildKit does not know of is alone, and stays one of its caller', () => {
  const alone: BuildOptions[] = [
    { secretIds: ['x'] },
    { sshIds: ['default'] },
    { secretIds: [] },
    ...['HTTP_PROXY', 'http_proxy', 'https_proxy', 'FTP_PROXY', 'no_proxy', 'ALL_PROXY'].map(
      name => ({ args: { A: '1', [name]: 'x' } }),
    ),
    // Go takes a long s for an s.
    { args: { 'http\u017f_proxy': 'x' } },
  ];
  for (const options of alone) {
    assert.ok(mustBeAlone({ options }), JSON.stringify(options));
    const domain = { name: 'build 1', isAlone: true };
    assert.deepEqual(domainOf(ada, { options }), { ...domain, callerKind: 'known' });
    const anonymous = domainOf({ ...ada, isTrusted: false }, { options });
    assert.deepEqual(anonymous, { ...domain, callerKind: 'anonymous' });
  }
  const shared: BuildOptions[] = [
    {},
    { args: { A: '1' } },
    { args: { MY_HTTP_PROXY: 'x', HTTP_PROXY_PORT: '1', GOPROXY: 'x', sftp_proxy: 'x' } },
  ];
  for (const options of shared) assert.ok(!mustBeAlone({ options }), JSON.stringify(options));
  assert.ok(!mustBeAlone({}));
});

test('the label of a domain is the start of the SHA-256 of its name', () => {
  // printf 'strangers' | sha256sum
  assert.equal(domainLabel(anonymousDomain), '2755e99b6736e750c5e4b4a74e10c52d');
});

test('labels for builders need the key of the service', () => {
  const [one, other] = [1, 2].map(byte => createLabelOf(Buffer.alloc(32, byte)));
  assert.ok(one && other);
  assert.match(one('mount'), /^[0-9a-f]{32}$/);
  assert.equal(
    createLabelOf(Buffer.alloc(32, 1))('mount'),
    one('mount'),
    'the same on each server',
  );
  assert.notEqual(one('mount'), one('host'));
  assert.notEqual(one('mount'), other('mount'));
});

test('labels for builders stay those of earlier versions, whose mounts have them', () => {
  assert.equal(createLabelOf(Buffer.alloc(32, 1))('mount'), '73cb2559244837cbb12ff956ff44773f');
});
