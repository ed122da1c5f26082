import { CommandError, UsageError, type Values } from '../command/command.ts';
import { askServer, loginHeaders, RefusedError, serverAddress } from '../server/server-client.ts';

// Images of every kind: the registry answers with the one it has.
const manifestTypes = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];

/**
 * Returns the answer of the server's registry, to the account in `SLUICE_ACCOUNT` if it is set. Throws
 * {@link RefusedError} when the registry refuses the request, and {@link CommandError} when it does not answer.
 */
export async function askRegistry(
  values: Values,
  path: string,
  method: 'GET' | 'HEAD' | 'DELETE' = 'GET',
): Promise<Response> {
  const account = process.env.SLUICE_ACCOUNT || undefined;
  const headers = { accept: manifestTypes.join(', '), ...loginHeaders(undefined, account) };
  // The password must not follow a redirect.
  const answer = await askServer(serverAddress(values), path, {
    ...{ method, headers, redirect: 'error' },
  });
  if (answer.ok) return answer;
  throw new RefusedError(await messageOf(answer, account), answer.status);
}

interface Message {
  readonly message: string;
}

/** Returns the message of the registry or of the JSON API, with advice when a login is missing. */
async function messageOf(answer: Response, account: string | undefined): Promise<string> {
  const login = '. Set SLUICE_ACCOUNT=name:password to an account of the server';
  const mayLack = account === undefined && [401, 403, 404].includes(answer.status);
  try {
    const body = (await answer.json()) as { errors?: readonly Message[] } & Partial<Message>;
    const message = (body.errors ?? [body]).map(error => error.message).join('; ');
    // The advice of the server is for other clients.
    if (answer.status === 401) {
      return account === undefined
        ? `The server requires a login${login}`
        : 'The name or the password is wrong: correct SLUICE_ACCOUNT';
    }
    return mayLack ? `${message}${login}` : message;
  } catch {
    return `The server answered ${answer.status}${mayLack ? login : ''}`;
  }
}

/**
 * Returns all entries of a list of repositories, page by page. Throws like {@link askRegistry}.
 * @param path below the route of repositories, with its query
 */
export async function listAll<T>(values: Values, path: string, member: string): Promise<T[]> {
  const entries: T[] = [];
  const [route = '', given = ''] = path.split('?');
  const query = new URLSearchParams(given);
  for (;;) {
    const answer = await askRegistry(values, `/v1alpha1/repositories${route}?${query}`);
    const page = (await answer.json()) as Readonly<Record<string, T[]>> & {
      readonly next?: string;
    };
    entries.push(...(page[member] ?? []));
    if (page.next === undefined) return entries;
    query.set('last', page.next);
  }
}

/** Splits `team/app:1` or `team/app@sha256:...`. Throws {@link UsageError} for a name without tag and digest. */
export function splitName(name: string): { repository: string; reference: string } {
  const [, repository, tag, digest] = /^([^@:]+)(?::([^@/]+)|@(.+))$/.exec(name) ?? [];
  const reference = tag ?? digest;
  if (repository !== undefined && reference !== undefined) return { repository, reference };
  if (name.includes(':')) {
    throw new CommandError(
      `${name} is not REPOSITORY:TAG or REPOSITORY@DIGEST. Omit the host: --server specifies it`,
      2,
    );
  }
  throw new UsageError(`${name} has neither a tag nor a digest`);
}
