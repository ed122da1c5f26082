import { Fault } from '../../../foundation/fault.ts';
import { noContent, ok, pathNumber } from '../../route/declaration.ts';
import { entryPoint } from '../entry-point.ts';
import { userIdOf } from '../owner.ts';
import { newTokenAnswer, newTokenSchema, tokensAnswer, tokensQuery } from '../platform-schemas.ts';
import { tokenView } from '../platform-views.ts';

/** Entry points of access tokens. Users manage their own tokens, administrators manage all tokens. */
export const tokenEntryPoints = [
  entryPoint({
    id: 'listTokens',
    method: 'get',
    path: '/tokens',
    tag: 'Tokens',
    summary: 'List your own access tokens; for administrators, those of a user or all',
    access: 'either',
    query: tokensQuery,
    answers: ok(tokensAnswer),
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
    body: { schema: newTokenSchema },
    answers: ok(newTokenAnswer),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ actor, body: { name, expiration, user }, note }, backend) {
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
      const until = actor.kind === 'user' ? actor.until : undefined;
      const { value, token } = await platform.tokens.create(holder, name, expiresAt, until);
      note('token.create', `'${token.name}' of ${(await platform.users.get(holder)).email}`);
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
    params: { tokenId: pathNumber },
    answers: noContent,
    faults: ['not-found'],
    async run({ actor, params, note }, { platform }) {
      const holder = actor.kind === 'user' ? actor.user.id : undefined;
      const { name, user } = await platform.tokens.revoke(params.tokenId, holder);
      note('token.revoke', `'${name}' of ${(await platform.users.get(user)).email}`);
      return undefined;
    },
  }),
];
