import { Fault } from '../../../foundation/fault.ts';
import { entryPoint, numberOf } from '../entry-point.ts';
import {
  memberAnswer,
  membersAnswer,
  newMemberSchema,
  newWorkspaceSchema,
  pageQuery,
  userWorkspacesAnswer,
  workspaceAnswer,
  workspacesAnswer,
  workspacesQuery,
} from '../platform-schemas.ts';
import { memberWorkspaceView, userView, workspaceView } from '../platform-views.ts';

// The answer has no pages.
const mostWorkspaces = 1000;

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
    method: 'get',
    path: '/user/{userId}/workspaces',
    summary: 'Workspaces that you are a member of, in the form that workflow engines read',
    access: 'user',
    answer: userWorkspacesAnswer,
    run({ actor, params }, { platform }) {
      const member = numberOf(params.userId);
      if (member !== actor.user.id) {
        throw new Fault('denied', 'This access token is of another user', {
          phase: 'credentials',
        });
      }
      const all = { limit: mostWorkspaces, offset: 0 };
      const { entries } = platform.workspaces.list({ member, name: undefined }, all);
      return { orgsAndWorkspaces: entries.map(memberWorkspaceView) };
    },
  }),
  entryPoint({
    method: 'post',
    path: '/workspaces',
    summary: 'Add a workspace',
    access: 'administrator',
    body: newWorkspaceSchema,
    answer: workspaceAnswer,
    run({ body, note }, { platform }) {
      const workspace = platform.workspaces.add(body.name);
      note('workspace.add', workspace.name);
      return { workspace: workspaceView(workspace) };
    },
  }),
  entryPoint({
    method: 'delete',
    path: '/workspaces/{workspaceId}',
    summary: 'Remove a workspace, with its credentials',
    access: 'administrator',
    run({ params, note }, { platform }) {
      const { id, name } = platform.workspaces.get(numberOf(params.workspaceId));
      platform.workspaces.remove(id);
      note('workspace.remove', name);
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
    run({ params, body, note }, { platform }) {
      const user = platform.users.withEmail(body.user);
      const { id, name } = platform.workspaces.get(numberOf(params.workspaceId));
      platform.workspaces.addMember(id, user.id);
      note('workspace.add-member', `${user.email} in ${name}`);
      return { member: userView(user) };
    },
  }),
  entryPoint({
    method: 'delete',
    path: '/workspaces/{workspaceId}/members/{userId}',
    summary: 'End the membership of a user',
    access: 'administrator',
    run({ params, note }, { platform }) {
      const { id, name } = platform.workspaces.get(numberOf(params.workspaceId));
      const member = numberOf(params.userId);
      platform.workspaces.removeMember(id, member);
      note('workspace.remove-member', `${platform.users.get(member).email} in ${name}`);
      return undefined;
    },
  }),
];
