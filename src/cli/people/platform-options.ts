import { withoutSlashes } from '../../foundation/text.ts';
import {
  CommandError,
  dataOptions,
  dataVariables,
  jsonOption,
  type Option,
  serverOption,
  serverVariables,
  text,
  type Values,
} from '../command/command.ts';
import { askServer, loginHeaders, readJson } from '../server-client.ts';
import { type AskPlatform, localPlatform } from './local-access.ts';

/** The options of every command that administers the built-in platform. */
export const platformOptions: Readonly<Record<string, Option>> = {
  ...dataOptions,
  server: {
    ...serverOption,
    description:
      'Address of a server to administer instead of the data directory. Default: SLUICE_SERVER, unless --data or --config is given',
  },
  json: jsonOption,
};

/** The variables of every command that administers the built-in platform. */
export const platformVariables: Readonly<Record<string, string>> = {
  ...dataVariables,
  ...serverVariables,
  SLUICE_ACCOUNT: 'Account of the server, as name:password. Required with a server',
};

/** The variables of commands with which users manage what is their own, and administrators what is of others. */
export const ownVariables: Readonly<Record<string, string>> = {
  ...platformVariables,
  SLUICE_TOKEN: 'With a server: access token of the user whose own things are managed',
  SLUICE_ACCOUNT:
    'With a server: account of an administrator, as name:password, for the things of all users; it wins',
};

/**
 * Runs the work with the platform of a server (`--server`, `SLUICE_SERVER`), or with the one in the data directory, which
 * a running server may use at the same time. Throws {@link CommandError} with the platform's message.
 *
 * @param options.ofUser the work is also for the user of `SLUICE_TOKEN`, who manages what is the user's own
 * @param options.create makes a data directory that the user has named, for users added before the server's first start
 */
export async function withPlatform<T>(
  values: Values,
  work: (ask: AskPlatform) => Promise<T>,
  { create = false, ofUser = false } = {},
): Promise<T> {
  const server = text(values, 'server');
  const local = localOption(values);
  if (server !== undefined && local !== undefined) {
    throw new CommandError(
      `--server and --${local} exclude each other: a command works on a server or on a data directory`,
      2,
    );
  }
  const address = remoteAddress(values);
  if (address) return work(askRemote(address, ofUser));
  const withLocalPlatform = await localPlatform();
  return withLocalPlatform(values, work, { create });
}

/** Returns the address of the server that a command works on; undefined for a data directory. */
function remoteAddress(values: Values): string | undefined {
  const isLocal = localOption(values) !== undefined;
  return text(values, 'server') ?? (isLocal ? undefined : process.env.SLUICE_SERVER || undefined);
}

/** Returns the option that names a data directory, if one is given. */
function localOption(values: Values): string | undefined {
  return ['data', 'config'].find(option => text(values, option) !== undefined);
}

/** Returns true for a command on a server with the access token of a user, who manages what is the user's own. */
export function isOfUser(values: Values): boolean {
  const { SLUICE_ACCOUNT: account, SLUICE_TOKEN: token } = process.env;
  return remoteAddress(values) !== undefined && !account && !!token;
}

function askRemote(server: string, ofUser: boolean): AskPlatform {
  const { SLUICE_ACCOUNT: account, SLUICE_TOKEN: token } = process.env;
  const isToken = ofUser && !account && !!token;
  if (!isToken && !account?.includes(':')) {
    throw new CommandError(
      ofUser
        ? `${server} requires a login: set SLUICE_TOKEN to your access token, or SLUICE_ACCOUNT=name:password to an account of an administrator`
        : `Administering ${server} requires one of its accounts: set SLUICE_ACCOUNT=name:password`,
      2,
    );
  }
  const login = loginHeaders(isToken ? token : undefined, account);
  return async (method, path, body) => {
    const init = {
      method,
      headers: { ...login, 'content-type': 'application/json' },
      // The password must not follow a redirect.
      redirect: 'error',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    } as const;
    const base = withoutSlashes(server).replace(/\/platform$/, '');
    return readJson(await askServer(base, `${pathOf(base)}/platform${path}`, init));
  };
}

function pathOf(base: string): string {
  return URL.canParse(base) ? withoutSlashes(new URL(base).pathname) : '';
}
