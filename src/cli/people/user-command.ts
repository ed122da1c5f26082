import { CommandError, type CommandGroup, none, only } from '../command/command.ts';
import { print, table } from '../command/output.ts';
import { type AskPlatform, listAll } from './ask-platform.ts';
import { platformOptions, platformVariables, withPlatform } from './platform-options.ts';

export interface UserResponse {
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
