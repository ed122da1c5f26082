import { CommandError, type Values } from '../command/command.ts';

/** Runs work with the platform in a data directory. */
type WithLocalPlatform = <T>(
  values: Values,
  work: (ask: AskPlatform) => Promise<T>,
  options: { readonly create: boolean },
) => Promise<T>;

let load: (() => Promise<WithLocalPlatform>) | undefined;

/** Lets commands work on data directories. The package sluice-cli, which has no code for that, does not call this. */
export function allowDataDirectories(loadLocalPlatform: () => Promise<WithLocalPlatform>): void {
  load = loadLocalPlatform;
}

/** Loads the code that works on data directories. Throws a {@link CommandError} when this program has none. */
export async function localPlatform(): Promise<WithLocalPlatform> {
  if (load) return load();
  throw new CommandError(
    'This program cannot work on a data directory: pass --server, or install the package sluice',
    2,
  );
}

/** Calls the API of the built-in platform as an administrator; undefined is a response without a body. */
export type AskPlatform = (
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  body?: object,
) => Promise<unknown>;

/** Returns all entries of a list, page by page. */
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
    const response = (await ask('GET', `${path}?${new URLSearchParams(parameters)}`)) as {
      readonly totalSize: number;
      readonly [member: string]: unknown;
    };
    const page = response[member] as T[];
    entries.push(...page);
    if (page.length === 0 || entries.length >= response.totalSize) return entries;
  }
}
