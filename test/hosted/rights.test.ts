import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { accountRights, commonRights, pullRights } from '../../src/hosted/rights.ts';

const nobody = pullRights([]);

test('an asterisk matches any characters, all other characters match themselves', () => {
  for (const [pattern, repository, matches] of [
    ['public/*', 'public/app', true],
    ['public/*', 'public/team/app', true],
    ['public/*', 'public', false],
    ['public/*', 'publicity/app', false],
    ['*', 'any/thing', true],
    ['team/app', 'team/app', true],
    ['team/app', 'team/app2', false],
    ['team/app', 'my/team/app', false],
    ['*/cache', 'team/cache', true],
    ['a.b/*', 'axb/app', false],
    ['a+b', 'aab', false],
    ['team/*/app', 'team/one/app', true],
    ['team/*/app', 'team/app', false],
    ['a*b*c', 'abc', true],
    ['a*b*c', 'a-b-b-c', true],
    ['a*b*c', 'a-c', false],
    ['a*b*b', 'ab', false],
    ['a*b*bc', 'abbc', true],
    ['a*b*bc', 'abc', false],
    ['ab*ba', 'aba', false],
    ['ab*ba', 'abba', true],
    ['*b*b*', 'xbxb', true],
    ['*b*b*', 'xb', false],
    ['*ab*b', 'abb', true],
    ['', 'a', false],
  ] as const) {
    const isAllowed = pullRights([pattern])(repository).includes('pull');
    assert.equal(isAllowed, matches, `${pattern} ${repository}`);
  }
});

test('each role includes the previous ones, and the best of several applies', () => {
  const rights = accountRights(
    {
      password: 'x',
      repositories: { 'team/*': 'pull', 'team/own/*': 'administer', 'team/own/c*': 'push' },
    },
    pullRights(['public/*']),
  );
  assert.deepEqual(rights('team/app'), ['pull']);
  assert.deepEqual(rights('team/own/app'), ['pull', 'push', 'delete']);
  assert.deepEqual(rights('team/own/cache'), ['pull', 'push', 'delete']);
  assert.deepEqual(rights('public/app'), ['pull'], 'the rights of everybody');
  assert.deepEqual(rights('other'), []);
});

test('one pattern of several is enough', () => {
  const rights = pullRights(['team/*', 'public/*']);
  assert.deepEqual(rights('team/app'), ['pull']);
  assert.deepEqual(rights('public/app'), ['pull']);
  assert.deepEqual(rights('other/app'), []);
});

test('each role has its actions', () => {
  const repositories = { a: 'pull', b: 'push', c: 'administer' } as const;
  const rights = accountRights({ password: 'x', repositories }, nobody);
  assert.deepEqual(rights('a'), ['pull']);
  assert.deepEqual(rights('b'), ['pull', 'push']);
  assert.deepEqual(rights('c'), ['pull', 'push', 'delete']);
});

test('an account with roles of an administrator has the repositories that it lists, and no others', () => {
  const roles = ['audit'] as const;
  assert.deepEqual(accountRights({ password: 'x', roles }, nobody)('any/thing'), []);
  const some = accountRights({ password: 'x', roles, repositories: { a: 'push' } }, nobody);
  assert.deepEqual([some('a'), some('b')], [['pull', 'push'], []]);
});

test('an account without patterns administers everything', () => {
  const rights = accountRights({ password: 'x' }, nobody);
  assert.deepEqual(rights('any/thing'), ['pull', 'push', 'delete']);
});

test('the intersection of two rights never exceeds either of them', () => {
  const role = fc.constantFrom('pull', 'push', 'administer') as fc.Arbitrary<'pull' | 'push'>;
  const rules = fc.dictionary(fc.constantFrom('*', 'a/*', 'b', 'a/b'), role);
  fc.assert(
    fc.property(rules, rules, fc.constantFrom('a/b', 'b', 'c'), (one, other, repository) => {
      const first = accountRights({ password: 'x', repositories: one }, nobody);
      const second = accountRights({ password: 'x', repositories: other }, nobody);
      for (const action of commonRights(first, second)(repository)) {
        assert.ok(first(repository).includes(action) && second(repository).includes(action));
      }
    }),
  );
});
