import { noContent, ok, pathNumber } from '../../route/declaration.ts';
import { entryPoint } from '../entry-point.ts';
import {
  newUserSchema,
  userInfoResponse,
  userResponse,
  usersQuery,
  usersResponse,
} from '../platform-schemas.ts';
import { userView } from '../platform-views.ts';

/** Entry points of the users, and of the user of an access token. */
export const userEntryPoints = [
  entryPoint({
    id: 'getUserInfo',
    method: 'get',
    path: '/user-info',
    tag: 'Users',
    summary: 'The user of the access token',
    access: 'user',
    responses: ok(userInfoResponse),
    run: ({ actor: { user, rights } }) => ({
      user: userView(user),
      ...(rights ? { tokenRights: rights } : {}),
    }),
  }),
  entryPoint({
    id: 'listUsers',
    method: 'get',
    path: '/users',
    tag: 'Users',
    summary: 'List users',
    access: 'administrator',
    query: usersQuery,
    responses: ok(usersResponse),
    async run({ query: { email, max, offset } }, { platform }) {
      const { entries, total } = await platform.users.list(email, { limit: max, offset });
      return { users: entries.map(userView), totalSize: total };
    },
  }),
  entryPoint({
    id: 'addUser',
    method: 'post',
    path: '/users',
    tag: 'Users',
    summary: 'Add a user',
    access: 'administrator',
    role: 'site',
    body: { schema: newUserSchema },
    responses: ok(userResponse),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ body, note }, { platform }) {
      const user = await platform.users.add(body.email);
      note('user.add', user.email);
      return { user: userView(user) };
    },
  }),
  entryPoint({
    id: 'removeUser',
    method: 'delete',
    path: '/users/{userId}',
    tag: 'Users',
    summary: 'Remove a user, their access tokens and their personal credentials',
    access: 'administrator',
    role: 'site',
    params: { userId: pathNumber },
    responses: noContent,
    faults: ['not-found'],
    async run({ params, note }, { platform }) {
      const { id, email } = await platform.users.get(params.userId);
      await platform.users.remove(id);
      note('user.remove', email);
      return undefined;
    },
  }),
];
