import type { Action } from '../../../hosted/accounts/index.ts';
import type { RepositoryAccess } from '../../../hosted/index.ts';

const repositoryScope = /^repository(?:\([^)]*\))?:(.+):([a-z*,]+)$/;
const catalogScope = /^registry(?:\([^)]*\))?:catalog:([a-z*,]+)$/;

/**
 * Parses `repository:team/app:pull,push`; returns nothing for other scopes.
 * Source: distribution's token scope documentation.
 */
export function parseScope(scope: string): RepositoryAccess[] {
  const [, name, actions] = repositoryScope.exec(scope) ?? [];
  if (name === undefined || actions === undefined) return [];
  return [{ type: 'repository', name, actions: actions.split(',') as Action[] }];
}

/** Returns whether a scope is for the list of all repositories: `registry:catalog:*`. */
export function isCatalogScope(scope: string): boolean {
  return catalogScope.exec(scope)?.[1]?.split(',').includes('*') === true;
}
