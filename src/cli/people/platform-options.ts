import { Fault } from '../../foundation/fault.ts';
import { readVersion } from '../../foundation/version.ts';
import { createPlatformApi } from '../../http/platform/platform-api.ts';
import { createBuiltInPlatform } from '../../platform/built-in/built-in-platform.ts';
import { createAuditLog } from '../../storage/rows/people/audit-log.ts';
import { openSecretBox } from '../../storage/rows/secrets/secret-keys.ts';
import { CommandError, type Option, text, type Values } from '../command.ts';
import { dataOptions, withLocalData } from '../data/data.ts';
import { commandLine } from '../data/operator.ts';
import { askServer, jsonOption, readJson } from '../server/server-client.ts';

/** The options of every command that administers the built-in platform. */
export const platformOptions: Readonly<Record<string, Option>> = {
  ...dataOptions,
  url: {
    type: 'string',
    value: 'URL',
    description: 'A server elsewhere; the account is SLUICE_ACCOUNT=name:password',
  },
  json: jsonOption,
};

/** Calls the API of the built-in platform as an administrator; undefined is an answer without a body. */
export type AskPlatform = (
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: object,
) => Promise<unknown>;

/**
 * Runs the work with the platform of the server at `--url`, else of the one whose data directory is here,
 * which may be running meanwhile. What adds the first of something may come before the server has ever run,
 * and makes the directory. Throws {@link CommandError} with the platform's words.
 */
export async function withPlatform<T>(
  values: Values,
  work: (ask: AskPlatform) => Promise<T>,
  { create = false } = {},
): Promise<T> {
  const url = text(values, 'url');
  if (url !== undefined) {
    if (text(values, 'data') !== undefined) {
      throw new CommandError('Give --url for a server elsewhere or --data for one here', 2);
    }
    return work(askRemote(url));
  }
  return withLocalData(
    values,
    async ({ config, database }) => {
      const secrets = openSecretBox(config.data);
      const platform = createBuiltInPlatform({ database, secrets });
      const audit = createAuditLog(database, error => {
        console.error(`The audit log cannot be written: ${(error as Error).message}`);
      });
      try {
        return await work(askLocal(createPlatformApi({ platform, version: readVersion(), audit })));
      } finally {
        await audit.flush();
      }
    },
    { create },
  );
}

function askLocal(api: ReturnType<typeof createPlatformApi>): AskPlatform {
  return async (method, target, body) => {
    const { pathname, searchParams } = new URL(target, 'http://localhost');
    try {
      return await api({
        method,
        path: pathname,
        query: Object.fromEntries(searchParams),
        // Who can write to the directory could change the database as well.
        identify: async () => ({ kind: 'administrator', name: commandLine() }),
        readBody: async () => body,
      });
    } catch (error) {
      if (error instanceof Fault) throw new CommandError(error.message);
      throw error;
    }
  };
}

function askRemote(url: string): AskPlatform {
  const account = process.env.SLUICE_ACCOUNT;
  if (!account?.includes(':')) {
    throw new CommandError(
      'With --url an account of that server is needed: set SLUICE_ACCOUNT=name:password',
      2,
    );
  }
  const authorization = `Basic ${Buffer.from(account).toString('base64')}`;
  return async (method, path, body) => {
    const init = {
      method,
      headers: { authorization, 'content-type': 'application/json' },
      // Wherever a redirect leads, the password is not for there.
      redirect: 'error',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    } as const;
    const advice = 'Check --url';
    const base = url.replace(/\/+$/, '').replace(/\/platform$/, '');
    return readJson(await askServer(base, `${pathOf(base)}/platform${path}`, init, advice));
  };
}

function pathOf(base: string): string {
  return URL.parse(base)?.pathname.replace(/\/+$/, '') ?? '';
}

/** All entries of a list, page by page. */
export async function listAll<T>(
  ask: AskPlatform,
  path: string,
  member: string,
  query: Readonly<Record<string, string | undefined>> = {},
): Promise<T[]> {
  const entries: T[] = [];
  for (;;) {
    const given = Object.entries({ ...query, offset: String(entries.length) });
    const parameters = given.filter((entry): entry is [string, string] => entry[1] !== undefined);
    const answer = (await ask('GET', `${path}?${new URLSearchParams(parameters)}`)) as {
      readonly totalSize: number;
      readonly [member: string]: unknown;
    };
    const page = answer[member] as T[];
    entries.push(...page);
    if (page.length === 0 || entries.length >= answer.totalSize) return entries;
  }
}
