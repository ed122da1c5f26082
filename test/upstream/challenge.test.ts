import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseChallenges } from '../../src/upstream/auth/bearer.ts';
import { processorMs } from '../world/processor-time.ts';

const plain = (header: string) =>
  parseChallenges(header).map(({ scheme, parameters }) => [scheme, { ...parameters }]);

test('the challenges of registries', () => {
  assert.deepEqual(
    plain(
      'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/alpine:pull"',
    ),
    [
      [
        'bearer',
        {
          realm: 'https://auth.docker.io/token',
          service: 'registry.docker.io',
          scope: 'repository:library/alpine:pull',
        },
      ],
    ],
  );
  assert.deepEqual(plain('Basic realm="Registry Realm"'), [['basic', { realm: 'Registry Realm' }]]);
  assert.deepEqual(plain('Bearer realm=https://r.example.com/t,service=x'), [
    ['bearer', { realm: 'https://r.example.com/t', service: 'x' }],
  ]);
});

test('several challenges in one header', () => {
  assert.deepEqual(
    plain('Basic realm="a, b", charset="UTF-8", Bearer realm="c",scope="x:y:pull,push"'),
    [
      ['basic', { realm: 'a, b', charset: 'UTF-8' }],
      ['bearer', { realm: 'c', scope: 'x:y:pull,push' }],
    ],
  );
  assert.deepEqual(
    plain('Newauth realm="apps", type=1, title="Login to \\"apps\\"", Basic realm="simple"'),
    [
      ['newauth', { realm: 'apps', type: '1', title: 'Login to "apps"' }],
      ['basic', { realm: 'simple' }],
    ],
  );
  assert.deepEqual(plain('Negotiate, Basic realm="x"'), [
    ['negotiate', {}],
    ['basic', { realm: 'x' }],
  ]);
  assert.deepEqual(plain('Negotiate YII=, Bearer realm="x"'), [
    ['negotiate', {}],
    ['bearer', { realm: 'x' }],
  ]);
  assert.deepEqual(plain('Negotiate abc/def+g==, Bearer realm = "x" , service = y'), [
    ['negotiate', {}],
    ['bearer', { realm: 'x', service: 'y' }],
  ]);
  assert.deepEqual(plain('NTLM TlRMTVNTUAAC, Basic realm="x"'), [
    ['ntlm', {}],
    ['basic', { realm: 'x' }],
  ]);
});

test('unusual spelling', () => {
  assert.deepEqual(plain('BEARER REALM="x"'), [['bearer', { realm: 'x' }]]);
  assert.deepEqual(plain(',, Basic  realm="x",, ,'), [['basic', { realm: 'x' }]]);
  assert.deepEqual(plain('Basic'), [['basic', {}]]);
  assert.deepEqual(plain(''), []);
  assert.deepEqual(plain('realm="x"'), []);
  assert.deepEqual(plain('realm="x" Basic realm="y"'), []);
  assert.equal(parseChallenges('Bearer __proto__="x"')[0]?.parameters.realm, undefined);
});

const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,9}$/);
const value = fc.string({ unit: 'grapheme-ascii', maxLength: 30 });
const challenge = fc.record({
  scheme: fc.stringMatching(/^[A-Z][a-z]{2,8}$/),
  parameters: fc.dictionary(name, value, { minKeys: 1, maxKeys: 4, noNullPrototype: true }),
});

test('a grammatical challenge is parsed back', () => {
  fc.assert(
    fc.property(fc.array(challenge, { maxLength: 4 }), challenges => {
      const header = challenges
        .map(({ scheme, parameters }) => {
          const list = Object.entries(parameters).map(
            ([key, text]) => `${key}="${text.replace(/["\\]/g, '\\$&')}"`,
          );
          return `${scheme} ${list.join(', ')}`;
        })
        .join(', ');
      const expected = challenges.map(({ scheme, parameters }) => [
        scheme.toLowerCase(),
        parameters,
      ]);
      assert.deepEqual(plain(header), expected);
    }),
  );
});

test('no header of a server causes an exception, or takes long', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 2000 }), text => {
      parseChallenges(text);
    }),
  );
  for (const text of [
    'a="'.repeat(30_000),
    'a '.repeat(30_000),
    '\\"'.repeat(30_000),
    ' '.repeat(60_000),
  ]) {
    const ms = processorMs(() => parseChallenges(`Basic ${text}`));
    assert.ok(ms < 1000, text.slice(0, 6));
  }
});
