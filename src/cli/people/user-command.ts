import {
  CommandError,
  type CommandGroup,
  none,
  type Option,
  only,
  print,
  required,
  table,
} from '../command/command.ts';
import { type AskPlatform, listAll } from './local-access.ts';
import { platformOptions, platformVariables, withPlatform } from './platform-options.ts';

interface UserResponse {
  readonly id: number;
  readonly email: string;
  readonly userName: string;
  readonly dateCreated: string;
}

const common = { options: platformOptions, variables: platformVariables };

/** `sluice user`: users of the built-in platform. */
export const userCommand: CommandGroup = {
  summary: 'Manage the users of the built-in platform',
  actions: {
    add: {
      ...common,
      summary: 'Add a user',
      usage: ['EMAIL'],
      async run(values, args) {
        const email = only(args, 'EMAIL');
        const { user } = (await withPlatform(values, ask => ask('POST', '/users', { email }), {
          create: true,
        })) as { user: UserResponse };
        print(
          values,
          user,
          `Added ${user.email}. To create an access token: sluice token add --user ${user.email} --name laptop`,
        );
        return 0;
      },
    },

    list: {
      ...common,
      summary: 'List the users',
      usage: [''],
      async run(values, args) {
        none(args);
        const users = await withPlatform(values, ask =>
          listAll<UserResponse>(ask, '/users', 'users'),
        );
        const rows = users.map(({ email, dateCreated }) => [email, dateCreated.slice(0, 10)]);
        print(values, { users }, table(['email', 'created'], rows));
        return 0;
      },
    },

    remove: {
      ...common,
      summary: "Remove a user with the user's tokens and credentials",
      usage: ['EMAIL'],
      async run(values, args) {
        const email = only(args, 'EMAIL');
        const user = await withPlatform(values, async ask => {
          const found = await findUser(ask, email);
          await ask('DELETE', `/users/${found.id}`);
          return found;
        });
        print(
          values,
          { removed: user },
          `Removed ${user.email} with the user's tokens and credentials`,
        );
        return 0;
      },
    },
  },
};

/** Returns the user with this address. Throws {@link CommandError} for an unknown user. */
export async function findUser(ask: AskPlatform, email: string): Promise<UserResponse> {
  const [user] = await listAll<UserResponse>(ask, '/users', 'users', { email });
  if (user) return user;
  throw new CommandError(`The user ${email} does not exist. To list all users: sluice user list`);
}

interface WorkspaceResponse {
  readonly id: number;
  readonly name: string;
  readonly dateCreated: string;
}

const userOption: Option = {
  type: 'string',
  value: 'EMAIL',
  description: 'The member',
};
const withUser = {
  options: { user: userOption, ...platformOptions },
  variables: platformVariables,
};

/** `sluice workspace`: groups of users that share registry credentials. */
export const workspaceCommand: CommandGroup = {
  summary: 'Manage the workspaces of the built-in platform and their members',
  actions: {
    add: {
      ...common,
      summary: 'Add a workspace',
      usage: ['NAME'],
      async run(values, args) {
        const name = only(args, 'NAME');
        const { workspace } = (await withPlatform(
          values,
          ask => ask('POST', '/workspaces', { name }),
          { create: true },
        )) as { workspace: WorkspaceResponse };
        print(values, workspace, `Added ${workspace.name}, number ${workspace.id}`);
        return 0;
      },
    },

    list: {
      ...common,
      summary: 'List the workspaces and their members',
      usage: [''],
      async run(values, args) {
        none(args);
        const workspaces = await withPlatform(values, listWithMembers);
        const rows = workspaces.map(({ id, name, dateCreated, members }) => [
          ...[String(id), name, dateCreated.slice(0, 10), members.join(', ') || '-'],
        ]);
        print(values, { workspaces }, table(['number', 'name', 'created', 'members'], rows));
        return 0;
      },
    },

    remove: {
      ...common,
      summary: 'Remove a workspace with its credentials',
      usage: ['NAME|NUMBER'],
      async run(values, args) {
        const name = only(args, 'NAME|NUMBER');
        const workspace = await withPlatform(values, async ask => {
          const found = await findWorkspace(ask, name);
          await ask('DELETE', `/workspaces/${found.id}`);
          return found;
        });
        print(values, { removed: workspace }, `Removed ${workspace.name} with its credentials`);
        return 0;
      },
    },

    'add-member': {
      ...withUser,
      summary: 'Add a user to a workspace',
      usage: ['NAME|NUMBER --user EMAIL'],
      async run(values, args) {
        const name = only(args, 'NAME|NUMBER');
        const user = required(values, 'user', 'EMAIL');
        const { workspace, member } = await withPlatform(values, async ask => {
          const found = await findWorkspace(ask, name);
          const response = await ask('POST', `/workspaces/${found.id}/members`, { user });
          return { workspace: found, ...(response as { member: UserResponse }) };
        });
        const line = `Added ${member.email} to ${workspace.name}, number ${workspace.id}`;
        print(values, { workspace, member }, line);
        return 0;
      },
    },

    'remove-member': {
      ...withUser,
      summary: 'Remove a user from a workspace',
      usage: ['NAME|NUMBER --user EMAIL'],
      async run(values, args) {
        const name = only(args, 'NAME|NUMBER');
        const user = required(values, 'user', 'EMAIL');
        const { workspace, removed } = await withPlatform(values, async ask => {
          const found = await findWorkspace(ask, name);
          const member = await findUser(ask, user);
          await ask('DELETE', `/workspaces/${found.id}/members/${member.id}`);
          return { workspace: found, removed: member };
        });
        print(values, { workspace, removed }, `Removed ${removed.email} from ${workspace.name}`);
        return 0;
      },
    },
  },
};

async function listWithMembers(ask: AskPlatform) {
  const workspaces = [];
  for (const workspace of await listAll<WorkspaceResponse>(ask, '/workspaces', 'workspaces')) {
    const path = `/workspaces/${workspace.id}/members`;
    const members = await listAll<UserResponse>(ask, path, 'members');
    workspaces.push({ ...workspace, members: members.map(({ email }) => email) });
  }
  return workspaces;
}

/** Returns the workspace with this number or name. Throws {@link CommandError} for an unknown one. */
export async function findWorkspace(
  ask: AskPlatform,
  nameOrNumber: string,
): Promise<WorkspaceResponse> {
  const all = await listAll<WorkspaceResponse>(ask, '/workspaces', 'workspaces');
  const found =
    all.find(({ id }) => String(id) === nameOrNumber) ??
    all.find(({ name }) => name === nameOrNumber);
  if (found) return found;
  throw new CommandError(
    `The workspace ${nameOrNumber} does not exist. To list all workspaces: sluice workspace list`,
  );
}
