import { Fault } from '../../../foundation/fault.ts';
import { entryPoint, numberOf } from '../entry-point.ts';
import { userIdOf } from '../owner.ts';
import { newTokenAnswer, newTokenSchema, tokensAnswer, tokensQuery } from '../platform-schemas.ts';
import { tokenView } from '../platform-views.ts';

/** Access tokens: users have their own to look after, administrators all. */
export const tokenEntryPoints = [
  entryPoint({
    method: 'get',
    path: '/tokens',
    summary: 'Access tokens: your own; for administrators, those of a user or all',
    access: 'either',
    query: tokensQuery,
    answer: tokensAnswer,
    run({ actor, query: { user, max, offset } }, backend) {
      const { platform } = backend;
      const holder = userIdOf(actor, user, backend);
      const { entries, total } = platform.tokens.list(holder, { limit: max, offset });
      return { tokens: entries.map(token => tokenView(token, platform)), totalSize: total };
    },
  }),
  entryPoint({
    method: 'post',
    path: '/tokens',
    summary: 'Create an access token',
    access: 'either',
    body: newTokenSchema,
    answer: newTokenAnswer,
    run({ actor, body: { name, expiration, user }, note }, backend) {
      const { platform } = backend;
      const holder = userIdOf(actor, user, backend);
      if (holder === undefined) {
        throw new Fault('bad-request', "'user': name the user that the token is for", {
          phase: 'request',
        });
      }
      const until = actor.kind === 'user' ? actor.until : undefined;
      const expiresAt = expiration === undefined ? until : Date.parse(expiration);
      if (until !== undefined && !(Number(expiresAt) <= until)) {
        throw new Fault(
          'denied',
          'A token cannot make one that lasts longer than itself: leave out the expiration, or use another token',
          { phase: 'credentials' },
        );
      }
      const { value, token } = platform.tokens.create(holder, name, expiresAt);
      note('token.create', `'${token.name}' of ${platform.users.get(holder).email}`);
      return { accessKey: value, token: tokenView(token, platform) };
    },
  }),
  entryPoint({
    method: 'delete',
    path: '/tokens/{tokenId}',
    summary: 'Revoke an access token',
    access: 'either',
    run({ actor, params, note }, { platform }) {
      const holder = actor.kind === 'user' ? actor.user.id : undefined;
      const { name, user } = platform.tokens.revoke(numberOf(params.tokenId), holder);
      note('token.revoke', `'${name}' of ${platform.users.get(user).email}`);
      return undefined;
    },
  }),
];
