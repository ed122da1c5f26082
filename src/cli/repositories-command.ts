import {
  type Command,
  CommandError,
  type CommandGroup,
  jsonOption,
  none,
  only,
  print,
  serverOption,
  serverVariables,
  table,
  UsageError,
  type Values,
} from './command/command.ts';
import { askServer, loginHeaders, RefusedError, serverAddress } from './server-client.ts';

const common: Pick<Command, 'options' | 'variables'> = {
  options: { server: serverOption, json: jsonOption },
  variables: {
    ...serverVariables,
    SLUICE_TOKEN: 'Access token of the user, for the repositories of the user',
    SLUICE_ACCOUNT: 'Account of the server, as name:password; it wins. Default: no login',
  },
};

/** `sluice repositories`: the repositories that a server hosts. */
export const repositoriesCommand: CommandGroup = {
  summary: 'List the repositories that a server hosts and their tags, and delete images',
  actions: {
    list: {
      ...common,
      summary: 'List the repositories that you may pull, with sizes and pulls',
      usage: [''],
      async run(values, args) {
        none(args);
        const repositories = await listAll<RepositoryEntry>(values, '', 'repositories');
        const rows = repositories.map(({ name, bytes, ...pulls }) => [
          ...[name, String(bytes)],
          ...pullCells(pulls),
        ]);
        print(values, { repositories }, table(['repository', 'bytes', ...pullHead], rows));
        return 0;
      },
    },

    tags: {
      ...common,
      summary: 'List the tags of a repository with digests, sizes and pulls',
      usage: ['REPOSITORY'],
      async run(values, args) {
        const repository = only(args, 'REPOSITORY');
        const query = `/tags?repository=${encodeURIComponent(repository)}`;
        const tags = await listAll<TagEntry>(values, query, 'tags');
        const rows = tags.map(({ tag, ...image }) => [tag, ...imageCells(image)]);
        print(values, { repository, tags }, table(['tag', ...imageHead], rows));
        return 0;
      },
    },

    untagged: {
      ...common,
      summary: 'List the images of a repository that no tag names, if you may delete them',
      usage: ['REPOSITORY'],
      async run(values, args) {
        const repository = only(args, 'REPOSITORY');
        const query = `/untagged?repository=${encodeURIComponent(repository)}`;
        const images = await listAll<ImageEntry>(values, query, 'images');
        const rows = images.map(image => imageCells(image));
        print(values, { repository, images }, table(imageHead, rows));
        return 0;
      },
    },

    delete: {
      ...common,
      summary: 'Delete a tag, or an image by its digest with all its tags',
      usage: ['REPOSITORY:TAG', 'REPOSITORY@DIGEST'],
      async run(values, args) {
        const name = only(args, 'REPOSITORY:TAG or REPOSITORY@DIGEST');
        const { repository, reference } = splitName(name);
        await askRegistry(values, `/v2/${repository}/manifests/${reference}`, 'DELETE');
        const result = { deleted: { repository, reference } };
        print(values, result, `Deleted ${name}. The server removes unreferenced content later`);
        return 0;
      },
    },
  },
};

interface Pulls {
  readonly recentPulls: number;
  readonly lastPulledAt?: string;
}

interface RepositoryEntry extends Pulls {
  readonly name: string;
  readonly bytes: number;
}

interface ImageEntry extends Pulls {
  readonly digest: string;
  readonly bytes?: number;
}

interface TagEntry extends ImageEntry {
  readonly tag: string;
}

const pullHead = ['pulls in 30 days', 'last pull'];
const imageHead = ['digest', 'bytes', ...pullHead];

function imageCells({ digest, bytes, ...pulls }: ImageEntry): string[] {
  return [digest, bytes === undefined ? '-' : String(bytes), ...pullCells(pulls)];
}

function pullCells({ recentPulls, lastPulledAt = '-' }: Pulls): string[] {
  return [String(recentPulls), lastPulledAt];
}

// Images of every kind: the registry answers with the one it has.
const manifestTypes = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];

/**
 * Returns the response of the server's registry, to the account in `SLUICE_ACCOUNT` or the user of `SLUICE_TOKEN`. Throws
 * {@link RefusedError} when the registry refuses the request, and {@link CommandError} when it does not answer.
 */
async function askRegistry(
  values: Values,
  path: string,
  method: 'GET' | 'HEAD' | 'DELETE' = 'GET',
): Promise<Response> {
  const { SLUICE_ACCOUNT: account, SLUICE_TOKEN: token } = process.env;
  // To the registry, an access token is the password of this name.
  const ofUser = token && path.startsWith('/v2/') ? `token:${token}` : undefined;
  const login =
    account || ofUser ? loginHeaders(undefined, account || ofUser) : loginHeaders(token, undefined);
  const headers = { accept: manifestTypes.join(', '), ...login };
  // The password must not follow a redirect.
  const response = await askServer(serverAddress(values), path, {
    method,
    headers,
    redirect: 'error',
  });
  if (response.ok) return response;
  const variable = account ? 'SLUICE_ACCOUNT' : token ? 'SLUICE_TOKEN' : undefined;
  throw new RefusedError(await messageOf(response, variable), response.status);
}

interface Message {
  readonly message: string;
}

/** Returns the message of the registry or of the JSON API, with advice when a login is missing. */
async function messageOf(
  response: Response,
  variable: 'SLUICE_ACCOUNT' | 'SLUICE_TOKEN' | undefined,
): Promise<string> {
  const login =
    '. Set SLUICE_TOKEN to your access token, or SLUICE_ACCOUNT=name:password to an account of the server';
  const mayLack = variable === undefined && [401, 403, 404].includes(response.status);
  try {
    const body = (await response.json()) as { errors?: readonly Message[] } & Partial<Message>;
    const message = (body.errors ?? [body]).map(error => error.message).join('; ');
    // The advice of the server is for other clients.
    if (response.status === 401 && variable !== 'SLUICE_TOKEN') {
      return variable === undefined
        ? `The server requires a login${login}`
        : 'The name or the password is wrong: correct SLUICE_ACCOUNT';
    }
    return mayLack ? `${message}${login}` : message;
  } catch {
    return `The server answered ${response.status}${mayLack ? login : ''}`;
  }
}

/**
 * Returns all entries of a list of repositories, page by page. Throws like {@link askRegistry}.
 * @param path below the route of repositories, with its query
 */
async function listAll<T>(values: Values, path: string, member: string): Promise<T[]> {
  const entries: T[] = [];
  const [route = '', given = ''] = path.split('?');
  const query = new URLSearchParams(given);
  for (;;) {
    const response = await askRegistry(values, `/v1alpha1/repositories${route}?${query}`);
    const page = (await response.json()) as Readonly<Record<string, T[]>> & {
      readonly next?: string;
    };
    entries.push(...(page[member] ?? []));
    if (page.next === undefined) return entries;
    query.set('last', page.next);
  }
}

/** Splits `team/app:1` or `team/app@sha256:...`. Throws {@link UsageError} for a name without tag and digest. */
function splitName(name: string): { repository: string; reference: string } {
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
