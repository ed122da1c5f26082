import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isCatalogScope, parseScope } from '../../src/http/registry/login/token-scope.ts';

test('a scope names a repository and the actions on it', () => {
  const access = (name: string, ...actions: string[]) => [{ type: 'repository', name, actions }];
  for (const [scope, expected] of [
    ['repository:team/app:pull', access('team/app', 'pull')],
    ['repository:team/app:pull,push', access('team/app', 'pull', 'push')],
    ['repository(plugin):team/app:pull', access('team/app', 'pull')],
    ['repository:host:5000/app:*', access('host:5000/app', '*')],
    ['repository:team/app', []],
    ['repository:team/app:', []],
    ['repository::pull', []],
    ['repository:team/app:PULL', []],
    ['repository:team/app:pull ', []],
    ['my repository:team/app:pull', []],
    ['registry:catalog:*', []],
    ['', []],
  ] as const) {
    assert.deepEqual(parseScope(scope), expected, scope);
  }
});

test('the list of all repositories takes all actions on the catalog', () => {
  for (const [scope, isIt] of [
    ['registry:catalog:*', true],
    ['registry(x):catalog:*', true],
    ['registry:catalog:pull,*', true],
    ['registry:catalog:pull', false],
    ['registry:catalog:*:x', false],
    ['registry:catalog:pull*', false],
    ['registry:catalogs:*', false],
    ['my registry:catalog:*', false],
    ['repository:catalog:*', false],
    ['', false],
  ] as const) {
    assert.equal(isCatalogScope(scope), isIt, scope);
  }
});
