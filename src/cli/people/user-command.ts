import { actions, none, only, print, table } from '../action.ts';
import { type Command, CommandError } from '../command.ts';
import { type AskPlatform, listAll, platformOptions, withPlatform } from './platform-options.ts';

export interface UserAnswer {
  readonly id: number;
  readonly email: string;
  readonly userName: string;
  readonly dateCreated: string;
}

/** `sluice user`: who is known to the built-in platform. */
export const userCommand: Command = {
  summary: 'Add, list and remove users of the built-in platform',
  usage: 'user add EMAIL | user list | user remove EMAIL [options]',
  options: platformOptions,
  ...actions('user', {
    async add(values, args) {
      const email = only(args, 'user add EMAIL');
      const { user } = (await withPlatform(values, ask => ask('POST', '/users', { email }), {
        create: true,
      })) as { user: UserAnswer };
      print(
        values,
        user,
        `Added ${user.email}; a token: sluice token add --user ${user.email} --name laptop`,
      );
    },

    async list(values, args) {
      none(args, 'user list');
      const users = await withPlatform(values, ask => listAll<UserAnswer>(ask, '/users', 'users'));
      const rows = users.map(({ email, dateCreated }) => [email, dateCreated.slice(0, 10)]);
      print(values, { users }, table(rows));
    },

    async remove(values, args) {
      const email = only(args, 'user remove EMAIL');
      const user = await withPlatform(values, async ask => {
        const found = await findUser(ask, email);
        await ask('DELETE', `/users/${found.id}`);
        return found;
      });
      print(values, { removed: user }, `Removed ${user.email}, with tokens and credentials`);
    },
  }),
};

/** Throws {@link CommandError} when there is none. */
export async function findUser(ask: AskPlatform, email: string): Promise<UserAnswer> {
  const [user] = await listAll<UserAnswer>(ask, '/users', 'users', { email });
  if (user) return user;
  throw new CommandError(`There is no user ${email}: sluice user list tells who there is`);
}
