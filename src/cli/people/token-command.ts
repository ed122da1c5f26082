import { parseDuration } from '../../server/config/duration.ts';
import {
  CommandError,
  type CommandGroup,
  none,
  type Option,
  print,
  required,
  table,
  text,
  UsageError,
  type Values,
} from '../command/command.ts';
import { listAll } from './local-access.ts';
import { isOfUser, ownVariables, platformOptions, withPlatform } from './platform-options.ts';

interface TokenResponse {
  readonly id: number;
  readonly name: string;
  readonly user: string;
  readonly dateCreated: string;
  readonly expiration: string | null;
  readonly lastUsed: string | null;
  readonly scopes: readonly string[];
  readonly repositories: readonly string[] | null;
  readonly createdBy: string | null;
}

const variables = ownVariables;
const ofUser = { ofUser: true };

const userOption = (description: string): Option => ({
  type: 'string',
  value: 'EMAIL',
  description,
});

/** `sluice token`: access tokens of the built-in platform. */
export const tokenCommand: CommandGroup = {
  summary: 'Manage the access tokens of the built-in platform',
  actions: {
    add: {
      summary: 'Create an access token and print it. It is shown only once',
      usage: ['[--user EMAIL] --name NAME [--scope SCOPE] [--repositories PATTERNS]'],
      options: {
        user: userOption('Owner of the token. Default: the user of SLUICE_TOKEN'),
        name: { type: 'string', value: 'NAME', description: 'Name of the token' },
        'expires-in': {
          type: 'string',
          value: 'TIME',
          description:
            'Lifetime, such as 90d or 12h. Default: it does not expire, and with SLUICE_TOKEN it ends with that token',
        },
        scope: {
          type: 'string',
          value: 'SCOPES',
          description:
            'What the token may do, separated by commas: pull, request, build, manage (the tokens and registry credentials of its user, with their secrets). Default: everything',
        },
        repositories: {
          type: 'string',
          value: 'PATTERNS',
          description:
            'Patterns of the repositories that it may use, separated by commas, such as team/* of the server or quay.io/team/*. Excludes the scope manage. Default: all',
        },
        ...platformOptions,
      },
      variables,
      async run(values, args) {
        none(args);
        const user = isOfUser(values) ? text(values, 'user') : required(values, 'user', 'EMAIL');
        const name = required(values, 'name', 'NAME');
        const expiration = expirationOf(values);
        const { accessKey, token } = (await withPlatform(
          values,
          ask =>
            ask('POST', '/tokens', {
              user,
              name,
              expiration,
              scopes: listIn(values, 'scope'),
              repositories: listIn(values, 'repositories'),
            }),
          ofUser,
        )) as { accessKey: string; token: TokenResponse };
        print(values, { token: accessKey, ...token }, accessKey);
        return 0;
      },
    },

    list: {
      summary: 'List the access tokens, without their secret part',
      usage: [''],
      options: { user: userOption('List only the tokens of this user'), ...platformOptions },
      variables,
      async run(values, args) {
        none(args);
        const user = text(values, 'user');
        const tokens = await withPlatform(
          values,
          ask => listAll<TokenResponse>(ask, '/tokens', 'tokens', { user }),
          ofUser,
        );
        const rows = tokens.map(token => [
          String(token.id),
          token.user,
          token.name,
          day(token.dateCreated),
          token.lastUsed === null ? 'never' : day(token.lastUsed),
          token.expiration === null
            ? 'never'
            : `${token.expiration}${hasExpired(token) ? ' (expired)' : ''}`,
          [token.scopes.join(','), ...(token.repositories ?? [])].join(' '),
          token.createdBy ?? '-',
        ]);
        const header = [
          ...['id', 'user', 'name', 'created', 'last used', 'expires', 'may', 'created by'],
        ];
        print(values, { tokens }, table(header, rows));
        return 0;
      },
    },

    remove: {
      summary: 'Remove an access token',
      usage: ['ID', '[--user EMAIL] --name NAME'],
      options: {
        user: userOption('Owner of the token. Default: the user of SLUICE_TOKEN'),
        name: { type: 'string', value: 'NAME', description: 'Name of the token' },
        ...platformOptions,
      },
      variables,
      async run(values, args) {
        const matches = choice(values, args);
        const token = await withPlatform(
          values,
          async ask => {
            const found = (await listAll<TokenResponse>(ask, '/tokens', 'tokens')).find(matches);
            if (!found) {
              throw new CommandError(
                'The token does not exist. To list all tokens: sluice token list',
              );
            }
            await ask('DELETE', `/tokens/${found.id}`);
            return found;
          },
          ofUser,
        );
        print(values, { removed: token }, `Removed the token ${token.name} of ${token.user}`);
        return 0;
      },
    },
  },
};

/** Returns a test for the token with that id, or of that user and name. */
function choice(
  values: Values,
  [id, ...more]: readonly string[],
): (token: TokenResponse) => boolean {
  const user = text(values, 'user')?.toLowerCase();
  const name = text(values, 'name');
  // The list of a user has only the user's own tokens.
  const isOwner = (token: TokenResponse) => user === undefined || token.user === user;
  const isNamed = name !== undefined && (user !== undefined || isOfUser(values));
  if (more.length > 0 || (id === undefined) !== isNamed) {
    throw new UsageError('Specify the token by its id, or by --user and --name');
  }
  return token => (isNamed ? isOwner(token) && token.name === name : String(token.id) === id);
}

/** Returns the texts of an option between commas; undefined without the option. */
function listIn(values: Values, option: string): string[] | undefined {
  return text(values, option)
    ?.split(',')
    .map(part => part.trim());
}

function expirationOf(values: Values): string | undefined {
  const given = text(values, 'expires-in');
  if (given === undefined) return undefined;
  const life = parseDuration(given);
  if (life === undefined) {
    throw new CommandError(`--expires-in ${given}: expected a time such as 90d or 12h`, 2);
  }
  const end = new Date(Date.now() + life);
  if (!(end.getUTCFullYear() <= 9999)) {
    throw new CommandError(
      `--expires-in ${given}: the time is too long. Omit the option for a token that does not expire`,
      2,
    );
  }
  return end.toISOString();
}

function hasExpired({ expiration }: TokenResponse): boolean {
  return expiration !== null && Date.parse(expiration) <= Date.now();
}

function day(time: string): string {
  return time.slice(0, 10);
}
