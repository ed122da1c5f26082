import { actions, none, only, print, table } from '../action.ts';
import { type Command, CommandError, text, type Values } from '../command.ts';
import { type AskPlatform, listAll, platformOptions, withPlatform } from './platform-options.ts';
import { findUser, type UserAnswer } from './user-command.ts';

interface WorkspaceAnswer {
  readonly id: number;
  readonly name: string;
  readonly dateCreated: string;
}

/** `sluice workspace`: what users of the built-in platform share credentials in. */
export const workspaceCommand: Command = {
  summary: 'Add, list and remove workspaces of the built-in platform, and their members',
  usage:
    'workspace add NAME | workspace list | workspace remove NAME | workspace add-member NAME --user EMAIL | workspace remove-member NAME --user EMAIL [options]',
  options: {
    user: {
      type: 'string',
      value: 'EMAIL',
      description: 'Who becomes a member, or is none any more',
    },
    ...platformOptions,
  },
  ...actions('workspace', {
    async add(values, args) {
      const name = only(args, 'workspace add NAME');
      const { workspace } = (await withPlatform(
        values,
        ask => ask('POST', '/workspaces', { name }),
        {
          create: true,
        },
      )) as { workspace: WorkspaceAnswer };
      print(values, workspace, `Added ${workspace.name}, number ${workspace.id}`);
    },

    async list(values, args) {
      none(args, 'workspace list');
      const workspaces = await withPlatform(values, async ask => {
        const found = await listAll<WorkspaceAnswer>(ask, '/workspaces', 'workspaces');
        const withMembers = [];
        for (const one of found) {
          const path = `/workspaces/${one.id}/members`;
          const members = await listAll<UserAnswer>(ask, path, 'members');
          withMembers.push({ ...one, members: members.map(({ email }) => email) });
        }
        return withMembers;
      });
      const rows = workspaces.map(({ id, name, members }) => [
        String(id),
        name,
        members.join(', ') || 'no members',
      ]);
      print(values, { workspaces }, table(rows));
    },

    async remove(values, args) {
      const name = only(args, 'workspace remove NAME');
      const workspace = await withPlatform(values, async ask => {
        const found = await findWorkspace(ask, name);
        await ask('DELETE', `/workspaces/${found.id}`);
        return found;
      });
      print(values, { removed: workspace }, `Removed ${workspace.name}, with its credentials`);
    },

    async 'add-member'(values, args) {
      const name = only(args, 'workspace add-member NAME --user EMAIL');
      const user = memberOf(values);
      const { workspace, member } = await withPlatform(values, async ask => {
        const found = await findWorkspace(ask, name);
        const answer = await ask('POST', `/workspaces/${found.id}/members`, { user });
        return { workspace: found, ...(answer as { member: UserAnswer }) };
      });
      const line = `${member.email} is a member of ${workspace.name}, number ${workspace.id}`;
      print(values, { workspace, member }, line);
    },

    async 'remove-member'(values, args) {
      const name = only(args, 'workspace remove-member NAME --user EMAIL');
      const user = memberOf(values);
      const { workspace, removed } = await withPlatform(values, async ask => {
        const found = await findWorkspace(ask, name);
        const member = await findUser(ask, user);
        await ask('DELETE', `/workspaces/${found.id}/members/${member.id}`);
        return { workspace: found, removed: member };
      });
      const line = `${removed.email} is no member of ${workspace.name} any more`;
      print(values, { workspace, removed }, line);
    },
  }),
};

function memberOf(values: Values): string {
  const user = text(values, 'user');
  if (user !== undefined) return user;
  throw new CommandError('Say who: --user EMAIL', 2);
}

/** Throws {@link CommandError} when there is none. */
export async function findWorkspace(ask: AskPlatform, name: string): Promise<WorkspaceAnswer> {
  const [workspace] = await listAll<WorkspaceAnswer>(ask, '/workspaces', 'workspaces', { name });
  if (workspace) return workspace;
  throw new CommandError(
    `There is no workspace ${name}: sluice workspace list tells which there are`,
  );
}
