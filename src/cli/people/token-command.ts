import { duration } from '../../server/config/units.ts';
import { actions, none, print, table } from '../action.ts';
import { type Command, CommandError, text, type Values } from '../command.ts';
import { listAll, platformOptions, withPlatform } from './platform-options.ts';

interface TokenAnswer {
  readonly id: number;
  readonly name: string;
  readonly user: string;
  readonly dateCreated: string;
  readonly expiration: string | null;
  readonly lastUsed: string | null;
}

/** `sluice token`: access tokens of the built-in platform. */
export const tokenCommand: Command = {
  summary: 'Create, list and remove access tokens of the built-in platform',
  usage: 'token add --user EMAIL --name NAME | token list | token remove ID [options]',
  options: {
    user: { type: 'string', value: 'EMAIL', description: 'Whose token; list: only those' },
    name: { type: 'string', value: 'NAME', description: 'What the token is called' },
    'expires-in': {
      type: 'string',
      value: 'TIME',
      description: 'Such as 90d or 12h; default: when it is removed',
    },
    ...platformOptions,
  },
  ...actions('token', {
    async add(values, args) {
      const usage = 'token add --user EMAIL --name NAME';
      none(args, usage);
      const [user, name] = [text(values, 'user'), text(values, 'name')];
      if (user === undefined || name === undefined)
        throw new CommandError(`Usage: sluice ${usage}`, 2);
      const expiration = expirationOf(values);
      const { accessKey, token } = (await withPlatform(values, ask =>
        ask('POST', '/tokens', { user, name, expiration }),
      )) as { accessKey: string; token: TokenAnswer };
      print(values, { token: accessKey, ...token }, accessKey);
    },

    async list(values, args) {
      none(args, 'token list [--user EMAIL]');
      const user = text(values, 'user');
      const tokens = await withPlatform(values, ask =>
        listAll<TokenAnswer>(ask, '/tokens', 'tokens', { user }),
      );
      const rows = tokens.map(token => [
        String(token.id),
        token.user,
        token.name,
        `created ${day(token.dateCreated)}`,
        token.lastUsed === null ? 'not used' : `used ${day(token.lastUsed)}`,
        token.expiration === null
          ? ''
          : `${hasEnded(token) ? 'expired' : 'expires'} ${token.expiration}`,
      ]);
      print(values, { tokens }, table(rows));
    },

    async remove(values, args) {
      const isMeant = choice(values, args);
      const token = await withPlatform(values, async ask => {
        const found = (await listAll<TokenAnswer>(ask, '/tokens', 'tokens')).find(isMeant);
        if (!found) {
          throw new CommandError('There is no such token: sluice token list tells which there are');
        }
        await ask('DELETE', `/tokens/${found.id}`);
        return found;
      });
      print(values, { removed: token }, `Removed the token '${token.name}' of ${token.user}`);
    },
  }),
};

/** Tells the token that is meant: the one of that id, or of that user and name. */
function choice(values: Values, [id, ...more]: readonly string[]): (token: TokenAnswer) => boolean {
  const user = text(values, 'user')?.toLowerCase();
  const name = text(values, 'name');
  const isNamed = user !== undefined && name !== undefined;
  if (more.length > 0 || (id === undefined) !== isNamed) {
    throw new CommandError('Usage: sluice token remove ID | --user EMAIL --name NAME', 2);
  }
  return token => (isNamed ? token.user === user && token.name === name : String(token.id) === id);
}

function expirationOf(values: Values): string | undefined {
  const given = text(values, 'expires-in');
  if (given === undefined) return undefined;
  const life = duration.safeParse(given);
  if (!life.success) throw new CommandError('--expires-in: expected a time such as 90d or 12h', 2);
  const end = new Date(Date.now() + life.data);
  if (!(end.getUTCFullYear() <= 9999)) {
    throw new CommandError('--expires-in: that is too far away; leave it out for no end', 2);
  }
  return end.toISOString();
}

function hasEnded({ expiration }: TokenAnswer): boolean {
  return expiration !== null && Date.parse(expiration) <= Date.now();
}

function day(time: string): string {
  return time.slice(0, 10);
}
