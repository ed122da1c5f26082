import { entryPoint, numberOf } from '../entry-point.ts';
import { newUserSchema, userAnswer, usersAnswer, usersQuery } from '../platform-schemas.ts';
import { userView } from '../platform-views.ts';

/** Who is known, and who asks. */
export const userEntryPoints = [
  entryPoint({
    method: 'get',
    path: '/user-info',
    summary: 'Whose access token it is',
    access: 'user',
    answer: userAnswer,
    run: ({ actor }) => ({ user: userView(actor.user) }),
  }),
  entryPoint({
    method: 'get',
    path: '/users',
    summary: 'Users',
    access: 'administrator',
    query: usersQuery,
    answer: usersAnswer,
    run({ query: { email, max, offset } }, { platform }) {
      const { entries, total } = platform.users.list(email, { limit: max, offset });
      return { users: entries.map(userView), totalSize: total };
    },
  }),
  entryPoint({
    method: 'post',
    path: '/users',
    summary: 'Add a user',
    access: 'administrator',
    body: newUserSchema,
    answer: userAnswer,
    run({ body, note }, { platform }) {
      const user = platform.users.add(body.email);
      note('user.add', user.email);
      return { user: userView(user) };
    },
  }),
  entryPoint({
    method: 'delete',
    path: '/users/{userId}',
    summary: 'Remove a user, with all tokens and personal credentials',
    access: 'administrator',
    run({ params, note }, { platform }) {
      const { id, email } = platform.users.get(numberOf(params.userId));
      platform.users.remove(id);
      note('user.remove', email);
      return undefined;
    },
  }),
];
