import { Fault } from '../../../foundation/fault.ts';
import { noContent, ok, pathNumber } from '../../route/declaration.ts';
import { entryPoint } from '../entry-point.ts';
import {
  memberResponse,
  membersResponse,
  newMemberSchema,
  newUserSchema,
  newWorkspaceSchema,
  pageQuery,
  userInfoResponse,
  userResponse,
  usersQuery,
  usersResponse,
  userWorkspacesResponse,
  workspaceResponse,
  workspacesQuery,
  workspacesResponse,
} from '../platform-schemas.ts';
import { memberWorkspaceView, userView, workspaceView } from '../platform-views.ts';

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

// The response has no pages.
const mostWorkspaces = 1000;

/** Entry points of workspaces and their members. */
export const workspaceEntryPoints = [
  entryPoint({
    id: 'listWorkspaces',
    method: 'get',
    path: '/workspaces',
    tag: 'Workspaces',
    summary: 'List the workspaces that you are a member of; for administrators, all',
    access: 'either',
    query: workspacesQuery,
    responses: ok(workspacesResponse),
    async run({ actor, query: { name, max, offset } }, { platform }) {
      const member = actor.kind === 'user' ? actor.user.id : undefined;
      const page = { limit: max, offset };
      const { entries, total } = await platform.workspaces.list({ member, name }, page);
      return { workspaces: entries.map(workspaceView), totalSize: total };
    },
  }),
  entryPoint({
    id: 'listUserWorkspaces',
    method: 'get',
    path: '/user/{userId}/workspaces',
    tag: 'Workspaces',
    summary: 'List the workspaces that you are a member of, in the format of workflow engines',
    access: 'user',
    params: { userId: pathNumber },
    responses: ok(userWorkspacesResponse),
    async run({ actor, params }, { platform }) {
      const member = params.userId;
      if (member !== actor.user.id) {
        throw new Fault(
          'denied',
          'This access token belongs to another user: use the id that /user-info returns',
          {
            phase: 'credentials',
          },
        );
      }
      const all = { limit: mostWorkspaces, offset: 0 };
      const { entries } = await platform.workspaces.list({ member, name: undefined }, all);
      return { orgsAndWorkspaces: entries.map(memberWorkspaceView) };
    },
  }),
  entryPoint({
    id: 'addWorkspace',
    method: 'post',
    path: '/workspaces',
    tag: 'Workspaces',
    summary: 'Add a workspace',
    access: 'administrator',
    role: 'site',
    body: { schema: newWorkspaceSchema },
    responses: ok(workspaceResponse),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ body, note }, { platform }) {
      const workspace = await platform.workspaces.add(body.name);
      note('workspace.add', workspace.name);
      return { workspace: workspaceView(workspace) };
    },
  }),
  entryPoint({
    id: 'removeWorkspace',
    method: 'delete',
    path: '/workspaces/{workspaceId}',
    tag: 'Workspaces',
    summary: 'Remove a workspace and its credentials',
    access: 'administrator',
    role: 'site',
    params: { workspaceId: pathNumber },
    responses: noContent,
    faults: ['not-found'],
    async run({ params, note }, { platform }) {
      const { id, name } = await platform.workspaces.get(params.workspaceId);
      await platform.workspaces.remove(id);
      note('workspace.remove', name);
      return undefined;
    },
  }),
  entryPoint({
    id: 'listMembers',
    method: 'get',
    path: '/workspaces/{workspaceId}/members',
    tag: 'Workspaces',
    summary: 'List the members of a workspace',
    access: 'administrator',
    params: { workspaceId: pathNumber },
    query: pageQuery,
    responses: ok(membersResponse),
    faults: ['not-found'],
    async run({ params, query: { max, offset } }, { platform }) {
      const id = params.workspaceId;
      const { entries, total } = await platform.workspaces.members(id, { limit: max, offset });
      return { members: entries.map(userView), totalSize: total };
    },
  }),
  entryPoint({
    id: 'addMember',
    method: 'post',
    path: '/workspaces/{workspaceId}/members',
    tag: 'Workspaces',
    summary: 'Add a user to a workspace',
    access: 'administrator',
    role: 'credentials',
    params: { workspaceId: pathNumber },
    body: { schema: newMemberSchema },
    responses: ok(memberResponse),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ params, body, note }, { platform }) {
      const user = await platform.users.withEmail(body.user);
      const { id, name } = await platform.workspaces.get(params.workspaceId);
      await platform.workspaces.addMember(id, user.id);
      note('workspace.add-member', `${user.email} in ${name}`);
      return { member: userView(user) };
    },
  }),
  entryPoint({
    id: 'removeMember',
    method: 'delete',
    path: '/workspaces/{workspaceId}/members/{userId}',
    tag: 'Workspaces',
    summary: 'Remove a user from a workspace',
    access: 'administrator',
    role: 'credentials',
    params: { workspaceId: pathNumber, userId: pathNumber },
    responses: noContent,
    faults: ['not-found'],
    async run({ params, note }, { platform }) {
      const { id, name } = await platform.workspaces.get(params.workspaceId);
      const member = params.userId;
      await platform.workspaces.removeMember(id, member);
      note('workspace.remove-member', `${(await platform.users.get(member)).email} in ${name}`);
      return undefined;
    },
  }),
];
