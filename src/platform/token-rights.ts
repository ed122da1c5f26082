import { Fault } from '../foundation/fault.ts';
import { matcher } from '../hosted/accounts/index.ts';
import { canonicalRegistry } from '../oci/naming.ts';

/**
 * What an access token may be limited to: `pull` is the login for pulls; `request` container requests, inspections and
 * checks of credentials; `build` builds; `manage` the tokens and registry credentials of its user, and their secrets.
 */
export const tokenScopes = ['pull', 'request', 'build', 'manage'] as const;
export type TokenScope = (typeof tokenScopes)[number];

/** The limits of an access token. They never change. A token without them may do everything that its user may do. */
export interface TokenRights {
  readonly scopes: readonly TokenScope[];
  /**
   * Patterns of the repositories that it may use, such as `team/*` of this server and `quay.io/team/*`. Undefined for
   * all.
   */
  readonly repositories?: readonly string[] | undefined;
}

const mostPatterns = 50;
const longestPattern = 255;

/**
 * Returns the limits that a new token gets; undefined for none. Throws a {@link Fault}: 400 for limits that exclude each
 * other, 403 for more than the token that creates it may do.
 *
 * @param wanted what the caller asks for; default: the rights of the token that creates it
 * @param own the limits of the token that creates it
 */
export function newTokenRights(
  wanted: {
    readonly scopes?: readonly string[] | undefined;
    readonly repositories?: readonly string[] | undefined;
  },
  own: TokenRights | undefined,
): TokenRights | undefined {
  requireScope(own, 'manage');
  const { repositories } = wanted;
  if (repositories) checkPatterns(repositories);
  const usual = own?.scopes ?? tokenScopes;
  const scopes =
    wanted.scopes?.map(knownScope) ??
    (repositories ? usual.filter(scope => scope !== 'manage') : usual);
  if (scopes.length === 0) throw refused('name at least one scope');
  // Secrets of credentials and further tokens open more than these repositories.
  if (repositories && scopes.includes('manage')) {
    throw refused("a token for certain repositories cannot have the scope 'manage'");
  }
  for (const scope of scopes) requireScope(own, scope);
  const isEverything = !repositories && tokenScopes.every(scope => scopes.includes(scope));
  if (isEverything) return undefined;
  const inOrder = tokenScopes.filter(scope => scopes.includes(scope));
  return { scopes: inOrder, ...(repositories ? { repositories: [...new Set(repositories)] } : {}) };
}

/** Returns the repositories of a token as one text; empty for a token for all. Equal texts mean the same limits. */
export function limitsIn({ repositories }: Pick<TokenRights, 'repositories'> = {}): string {
  return repositories ? ` ${JSON.stringify(repositories)}` : '';
}

/** Returns true for a token with the scope, and for callers without a token that is limited. */
export function hasScope(rights: TokenRights | undefined, scope: TokenScope): boolean {
  return rights === undefined || rights.scopes.includes(scope);
}

/** Throws a {@link Fault} (403), which names the scope, for a token without it. */
export function requireScope(rights: TokenRights | undefined, scope: TokenScope): void {
  if (hasScope(rights, scope)) return;
  throw new Fault(
    'denied',
    `This access token lacks the scope '${scope}': use another token, or create one (sluice token add --scope ${scope})`,
    { phase: 'credentials' },
  );
}

/**
 * Returns true if a token may use the repository of a registry.
 *
 * @param ownHost host of the hosted repositories, whose patterns need no host
 */
export function mayUse(
  { repositories }: Pick<TokenRights, 'repositories'>,
  registry: string,
  repository: string,
  ownHost: string,
): boolean {
  if (!repositories) return true;
  const host = canonicalRegistry(registry);
  const names = [`${host}/${repository}`, ...(host === ownHost ? [repository] : [])];
  return repositories.map(matcher).some(matches => names.some(matches));
}

/** Returns true if a token may use every repository of a registry. */
export function mayUseAll(
  { repositories }: Pick<TokenRights, 'repositories'>,
  registry: string,
): boolean {
  const all = ['*', `${canonicalRegistry(registry)}/*`];
  return !repositories || repositories.some(pattern => all.includes(pattern));
}

/** A container request, as far as the limits of a token concern it. */
interface Served {
  readonly image: { readonly registry: string; readonly repository: string };
  readonly isBuilt?: boolean | undefined;
  readonly caller: { readonly scope?: string | undefined };
}

/**
 * Returns true if the login of a caller is one for the image of a container request, where pulls require a login.
 *
 * @param ownHost host of the hosted repositories
 */
export function mayPullServed(
  {
    rights,
    scope,
  }: { readonly rights?: TokenRights | undefined; readonly scope?: string | undefined },
  { image, isBuilt, caller }: Served,
  ownHost: string,
): boolean {
  if (!hasScope(rights, 'pull')) return false;
  // Built images are in repositories of the service: a token may pull what was built with the same limits.
  if (!rights?.repositories || caller.scope === scope) return true;
  return !isBuilt && mayUse(rights, image.registry, image.repository, ownHost);
}

/** The fault for a repository that a token may not use. */
export function outsideRights(registry: string, repository: string): Fault {
  return new Fault(
    'denied',
    `This access token is limited to certain repositories, and ${canonicalRegistry(registry)}/${repository} is not one of them: use another token`,
    { phase: 'credentials' },
  );
}

function knownScope(text: string): TokenScope {
  const scope = tokenScopes.find(one => one === text);
  if (scope) return scope;
  throw refused(`'${text.slice(0, 40)}' is not a scope. Scopes: ${tokenScopes.join(', ')}`);
}

function checkPatterns(patterns: readonly string[]): void {
  const isWrong = (text: string) => !/^[\x21-\x7e]+$/.test(text) || text.length > longestPattern;
  if (patterns.length === 0 || patterns.length > mostPatterns || patterns.some(isWrong)) {
    throw refused(
      `'repositories' takes 1 to ${mostPatterns} patterns without spaces, such as team/* or quay.io/team/*`,
    );
  }
}

function refused(why: string): Fault {
  return new Fault('bad-request', `The token cannot be limited like this: ${why}`, {
    phase: 'request',
  });
}
