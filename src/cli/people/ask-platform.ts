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
