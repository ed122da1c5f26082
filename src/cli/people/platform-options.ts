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
import { askServer, readJson } from '../server-client.ts';
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

/**
 * Runs the work with the platform of a server (`--server`, `SLUICE_SERVER`), or with the one in the data directory, which
 * a running server may use at the same time. Throws {@link CommandError} with the platform's message.
 *
 * @param options.create makes a data directory that the user has named, for users added before the server's first start
 */
export async function withPlatform<T>(
  values: Values,
  work: (ask: AskPlatform) => Promise<T>,
  { create = false } = {},
): Promise<T> {
  const server = text(values, 'server');
  const local = ['data', 'config'].find(option => text(values, option) !== undefined);
  if (server !== undefined && local !== undefined) {
    throw new CommandError(
      `--server and --${local} exclude each other: a command works on a server or on a data directory`,
      2,
    );
  }
  const address = server ?? (local === undefined ? process.env.SLUICE_SERVER : undefined);
  if (address) return work(askRemote(address));
  const withLocalPlatform = await localPlatform();
  return withLocalPlatform(values, work, { create });
}

function askRemote(server: string): AskPlatform {
  const account = process.env.SLUICE_ACCOUNT;
  if (!account?.includes(':')) {
    throw new CommandError(
      `Administering ${server} requires one of its accounts: set SLUICE_ACCOUNT=name:password`,
      2,
    );
  }
  const authorization = `Basic ${Buffer.from(account).toString('base64')}`;
  return async (method, path, body) => {
    const init = {
      method,
      headers: { authorization, 'content-type': 'application/json' },
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
