import { Fault } from '../../../foundation/fault.ts';
import { type TokenScope, tokenScopes } from '../../../platform/built-in/index.ts';
import { requireRole } from '../../callers/basic-auth.ts';
import { noContent, ok, pathNumber } from '../../route/declaration.ts';
import { type Actor, entryPoint, nameOf, userIdOf } from '../entry-point.ts';
import {
  newTokenResponse,
  newTokenSchema,
  tokensQuery,
  tokensResponse,
} from '../platform-schemas.ts';
import { describeToken, tokenView } from '../platform-views.ts';

/** Entry points of access tokens. Users manage their own tokens, administrators manage all tokens. */
export const tokenEntryPoints = [
  entryPoint({
    id: 'listTokens',
    method: 'get',
    path: '/tokens',
    tag: 'Tokens',
    summary: 'List your own access tokens; for administrators, those of a user or all',
    access: 'either',
    role: 'tokens',
    scope: 'manage',
    query: tokensQuery,
    responses: ok(tokensResponse),
    async run({ actor, query: { user, max, offset } }, backend) {
      const { platform } = backend;
      const holder = await userIdOf(actor, user, backend);
      const { entries, total } = await platform.tokens.list(holder, { limit: max, offset });
      return {
        tokens: await Promise.all(entries.map(token => tokenView(token, platform))),
        totalSize: total,
      };
    },
  }),
  entryPoint({
    id: 'createToken',
    method: 'post',
    path: '/tokens',
    tag: 'Tokens',
    summary: 'Create an access token',
    access: 'either',
    role: 'tokens',
    scope: 'manage',
    body: { schema: newTokenSchema },
    responses: ok(newTokenResponse),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ actor, body: { name, expiration, user, scopes, repositories }, note }, backend) {
      const { platform } = backend;
      const holder = await userIdOf(actor, user, backend);
      if (holder === undefined) {
        throw new Fault(
          'bad-request',
          "'user' is missing: send the e-mail address of the user who gets the token",
          {
            phase: 'request',
          },
        );
      }
      const expiresAt = expiration === undefined ? undefined : Date.parse(expiration);
      const wanted = { user: holder, name, expiresAt, scopes, repositories };
      const { value, token } = await (actor.kind === 'user'
        ? platform.tokens.create(wanted, actor)
        : platform.tokens.create({ ...wanted, ...givenBy(actor, wanted) }));
      note('token.create', describeToken(token, (await platform.users.get(holder)).email));
      // Whoever gets the token of another user has left a trace.
      await backend.audit.flush();
      return { accessKey: value, token: await tokenView(token, platform) };
    },
  }),
  entryPoint({
    id: 'revokeToken',
    method: 'delete',
    path: '/tokens/{tokenId}',
    tag: 'Tokens',
    summary: 'Revoke an access token',
    access: 'either',
    role: 'tokens',
    scope: 'manage',
    params: { tokenId: pathNumber },
    responses: noContent,
    faults: ['not-found'],
    async run({ actor, params, note }, { platform }) {
      const holder = actor.kind === 'user' ? actor.user.id : undefined;
      const { name, user } = await platform.tokens.revoke(params.tokenId, holder);
      note('token.revoke', `'${name}' of ${(await platform.users.get(user)).email}`);
      return undefined;
    },
  }),
];

/**
 * Returns what an administrator adds to a token for a user. Only the role `credentials` lets a token read the secrets of
 * its user. Throws a {@link Fault} (403) without the role.
 */
function givenBy(
  actor: Extract<Actor, { kind: 'administrator' }>,
  {
    scopes,
    repositories,
  }: { readonly scopes?: readonly TokenScope[] | undefined; readonly repositories?: unknown },
) {
  const creator = nameOf(actor);
  if (scopes?.includes('manage')) requireRole(actor.roles, 'credentials');
  if (scopes || repositories || actor.roles.includes('credentials')) return { creator };
  return { creator, scopes: tokenScopes.filter(scope => scope !== 'manage') };
}
