import { entryPoint, numberOf } from './entry-point.ts';
import {
  memberAnswer,
  membersAnswer,
  newMemberSchema,
  newWorkspaceSchema,
  pageQuery,
  workspaceAnswer,
  workspacesAnswer,
  workspacesQuery,
} from './schema.ts';
import { userView, workspaceView } from './view.ts';

/** Workspaces and who is in them. */
export const workspaceEntryPoints = [
  entryPoint({
    method: 'get',
    path: '/workspaces',
    summary: 'Workspaces that you are a member of; for administrators, all',
    access: 'either',
    query: workspacesQuery,
    answer: workspacesAnswer,
    run({ actor, query: { name, max, offset } }, { platform }) {
      const member = actor.kind === 'user' ? actor.user.id : undefined;
      const page = { limit: max, offset };
      const { entries, total } = platform.workspaces.list({ member, name }, page);
      return { workspaces: entries.map(workspaceView), totalSize: total };
    },
  }),
  entryPoint({
    method: 'post',
    path: '/workspaces',
    summary: 'Add a workspace',
    access: 'administrator',
    body: newWorkspaceSchema,
    answer: workspaceAnswer,
    run: ({ body }, { platform }) => ({
      workspace: workspaceView(platform.workspaces.add(body.name)),
    }),
  }),
  entryPoint({
    method: 'delete',
    path: '/workspaces/{workspaceId}',
    summary: 'Remove a workspace, with its credentials',
    access: 'administrator',
    run({ params }, { platform }) {
      platform.workspaces.remove(numberOf(params.workspaceId));
      return undefined;
    },
  }),
  entryPoint({
    method: 'get',
    path: '/workspaces/{workspaceId}/members',
    summary: 'Members of a workspace',
    access: 'administrator',
    query: pageQuery,
    answer: membersAnswer,
    run({ params, query: { max, offset } }, { platform }) {
      const id = numberOf(params.workspaceId);
      const { entries, total } = platform.workspaces.members(id, { limit: max, offset });
      return { members: entries.map(userView), totalSize: total };
    },
  }),
  entryPoint({
    method: 'post',
    path: '/workspaces/{workspaceId}/members',
    summary: 'Make a user a member of a workspace',
    access: 'administrator',
    body: newMemberSchema,
    answer: memberAnswer,
    run({ params, body }, { platform }) {
      const user = platform.users.withEmail(body.user);
      platform.workspaces.addMember(numberOf(params.workspaceId), user.id);
      return { member: userView(user) };
    },
  }),
  entryPoint({
    method: 'delete',
    path: '/workspaces/{workspaceId}/members/{userId}',
    summary: 'End the membership of a user',
    access: 'administrator',
    run({ params }, { platform }) {
      platform.workspaces.removeMember(numberOf(params.workspaceId), numberOf(params.userId));
      return undefined;
    },
  }),
];
