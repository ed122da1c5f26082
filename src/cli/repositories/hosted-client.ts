import { CommandError, UsageError, type Values } from '../command/command.ts';
import { askServer, RefusedError, serverAddress } from '../server/server-client.ts';

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
  const headers: Record<string, string> = { accept: manifestTypes.join(', ') };
  if (account !== undefined) {
    headers.authorization = `Basic ${Buffer.from(account).toString('base64')}`;
  }
  // The password must not follow a redirect.
  const answer = await askServer(serverAddress(values), path, {
    ...{ method, headers, redirect: 'error' },
  });
  if (answer.ok) return answer;
  throw new RefusedError(await messageOf(answer, account), answer.status);
}

/** Returns the registry's message, with advice when a login is missing. */
async function messageOf(answer: Response, account: string | undefined): Promise<string> {
  const login = answer.status === 401 && account === undefined;
  const advice = login ? '. Set SLUICE_ACCOUNT=name:password to an account of the server' : '';
  try {
    const { errors } = (await answer.json()) as { errors: readonly { message: string }[] };
    const message = errors.map(error => error.message).join('; ');
    // The registry's own advice is for container clients.
    return login ? `The server requires a login${advice}` : message;
  } catch {
    return `The server answered ${answer.status}${advice}`;
  }
}

/** Returns all entries of a list, page by page. Throws like {@link askRegistry}. */
export async function listPages(values: Values, path: string, member: string): Promise<string[]> {
  const entries: string[] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const answer: Response = await askRegistry(values, next);
    const page = (await answer.json()) as Readonly<Record<string, string[] | null>>;
    entries.push(...(page[member] ?? []));
    // Source: OCI distribution specification 1.1, Listing Tags.
    next = /^<([^>]+)>;\s*rel="?next"?/.exec(answer.headers.get('link') ?? '')?.[1];
  }
  return entries;
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
