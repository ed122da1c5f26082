/** What an access token may be limited to, and that a limit holds for all that is made with the token. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  hasScope,
  limitsIn,
  mayPullServed,
  mayUse,
  mayUseAll,
  newTokenRights,
  outsideRights,
  requireScope,
  type TokenRights,
  tokenScopes,
} from '../../src/platform/token-rights.ts';

const ownHost = 'sluice.example.com';
const denied = { kind: 'denied' };
const badRequest = { kind: 'bad-request' };

test('a token without limits has every scope, one with limits only its own', () => {
  for (const scope of tokenScopes) {
    assert.ok(hasScope(undefined, scope));
    requireScope(undefined, scope);
    const rights: TokenRights = { scopes: [scope] };
    for (const other of tokenScopes) {
      assert.equal(hasScope(rights, other), other === scope);
      if (other === scope) requireScope(rights, other);
      else assert.throws(() => requireScope(rights, other), denied);
    }
  }
  assert.deepEqual(tokenScopes, ['pull', 'request', 'build', 'manage']);
});

test('a new token has the scopes that were asked for, in their order and once', () => {
  const scopes = ['build', 'pull', 'build'];
  assert.deepEqual(newTokenRights({ scopes }, undefined), { scopes: ['pull', 'build'] });
  assert.equal(newTokenRights({}, undefined), undefined);
  assert.equal(newTokenRights({ scopes: [...tokenScopes].reverse() }, undefined), undefined);
  assert.throws(() => newTokenRights({ scopes: [] }, undefined), badRequest);
  assert.throws(() => newTokenRights({ scopes: ['pull', 'admin'] }, undefined), badRequest);
});

test('a token does not create one with more rights, or any without the scope manage', () => {
  const own: TokenRights = { scopes: ['pull', 'manage'] };
  assert.deepEqual(newTokenRights({}, own), own, 'the same by default');
  assert.deepEqual(newTokenRights({ scopes: ['pull'] }, own), { scopes: ['pull'] });
  assert.throws(() => newTokenRights({ scopes: ['pull', 'build'] }, own), denied);
  for (const wanted of [{}, { scopes: ['pull'] }]) {
    assert.throws(() => newTokenRights(wanted, { scopes: ['pull', 'request', 'build'] }), denied);
  }
});

test('a token for certain repositories has each pattern once, and cannot manage', () => {
  const repositories = ['team/*', 'quay.io/x', 'team/*'];
  const limited = { scopes: ['pull', 'request', 'build'], repositories: ['team/*', 'quay.io/x'] };
  assert.deepEqual(newTokenRights({ repositories }, undefined), limited);
  const ofLess = newTokenRights({ repositories }, { scopes: ['pull', 'manage'] });
  assert.deepEqual(ofLess?.scopes, ['pull']);
  const managing = { repositories, scopes: ['pull', 'manage'] };
  assert.throws(() => newTokenRights(managing, undefined), badRequest);
});

test('there are 1 to 50 patterns of 1 to 255 visible characters', () => {
  const made = (repositories: string[]) =>
    newTokenRights({ repositories }, undefined)?.repositories;
  const many = (count: number) => Array.from({ length: count }, (_, index) => `team/${index}`);
  assert.equal(made(many(50))?.length, 50);
  assert.equal(made(['a'.repeat(255)])?.length, 1);
  assert.equal(made(['!~'])?.length, 1);
  for (const wrong of [
    ...[[], many(51), ['a'.repeat(256)], ['team/*', ''], ['team/*', 'a b']],
    ...[['a\n'], [' a'], ['a\u007f'], ['é']],
  ]) {
    assert.throws(() => made(wrong), badRequest, wrong[0]);
  }
});

test('a pattern is for one registry; without a host, for the hosted repositories', () => {
  const repositories = ['team/*', 'quay.io/lab/*', 'docker.io/library/alpine'];
  for (const [registry, repository, may] of [
    [ownHost, 'team/app', true],
    [ownHost, 'other/app', false],
    [ownHost, 'lab/app', false],
    ['quay.io', 'team/app', false],
    ['quay.io', 'lab/app', true],
    ['QUAY.io', 'lab/app', true],
    ['index.docker.io', 'library/alpine', true],
    ['docker.io', 'library/alpine2', false],
  ] as const) {
    const name = `${registry}/${repository}`;
    assert.equal(mayUse({ repositories }, registry, repository, ownHost), may, name);
    assert.ok(mayUse({}, registry, repository, ownHost));
  }
});

test('all of a registry takes a pattern for all of it', () => {
  assert.ok(mayUseAll({}, 'quay.io'));
  for (const [pattern, may] of [
    ['*', true],
    ['quay.io/*', true],
    ['quay.io/team/*', false],
    ['docker.io/*', false],
    ['quay.io*', false],
  ] as const) {
    assert.equal(mayUseAll({ repositories: ['x/y', pattern] }, 'QUAY.io'), may, pattern);
  }
  assert.ok(!mayUseAll({ repositories: [] }, 'quay.io'));
});

test('a login pulls a served name if its token may pull, and may use the image', () => {
  const image = { registry: 'quay.io', repository: 'lab/app' };
  const may = (
    rights: TokenRights | undefined,
    more: { isBuilt?: boolean; scope?: string; by?: string } = {},
  ) => {
    const { isBuilt, scope = 'ada', by = 'ada' } = more;
    return mayPullServed({ rights, scope }, { image, isBuilt, caller: { scope: by } }, ownHost);
  };
  const limitedTo = (...repositories: string[]): TokenRights => ({
    scopes: ['pull'],
    repositories,
  });
  assert.ok(may(undefined));
  assert.ok(may({ scopes: ['pull'] }, { by: 'bob' }));
  assert.ok(!may({ scopes: ['request', 'build', 'manage'] }));
  assert.ok(may(limitedTo('quay.io/lab/*'), { by: 'bob' }));
  assert.ok(!may(limitedTo('quay.io/other/*'), { by: 'bob' }));
  assert.ok(may(limitedTo('quay.io/other/*')), 'a name that was made with the same limits');
  assert.ok(may(limitedTo('quay.io/other/*'), { isBuilt: true }));
  const ofBob = { isBuilt: true, by: 'bob' };
  assert.ok(!may(limitedTo('quay.io/lab/*'), ofBob), 'where a built image is says nothing');
  assert.ok(!may({ ...limitedTo('quay.io/lab/*'), scopes: ['build'] }));
});

test('the limits of two tokens are the same text only for the same repositories', () => {
  assert.equal(limitsIn(undefined), '');
  assert.equal(limitsIn({}), '');
  assert.equal(limitsIn({ repositories: ['a/*', 'b'] }), ' ["a/*","b"]');
});

test('a refusal names the repository as image names do', () => {
  const { kind, message } = outsideRights('index.docker.io', 'library/alpine');
  assert.equal(kind, 'denied');
  assert.match(message, / docker\.io\/library\/alpine is not one of them/);
});
