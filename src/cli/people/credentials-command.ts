import {
  CommandError,
  type CommandGroup,
  none,
  type Option,
  only,
  print,
  readPassword,
  required,
  table,
  text,
  UsageError,
  type Values,
} from '../command/command.ts';
import { ownWorkspace } from '../server-client.ts';
import { type AskPlatform, listAll } from './local-access.ts';
import { isOfUser, ownVariables, platformOptions, withPlatform } from './platform-options.ts';
import { findUser, findWorkspace } from './user-command.ts';

interface CredentialsResponse {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  readonly keys: Readonly<Record<string, string | undefined>>;
  readonly user?: string;
  readonly workspace?: string;
  readonly lastUsed: string | null;
}

const ownerOptions: Readonly<Record<string, Option>> = {
  user: {
    type: 'string',
    value: 'EMAIL',
    description: 'The user who owns the credentials. Default: the user of SLUICE_TOKEN',
  },
  workspace: {
    type: 'string',
    value: 'NAME|NUMBER',
    description: 'The workspace whose members share the credentials',
  },
};
const variables = ownVariables;
const ofUser = { ofUser: true };

/** `sluice credentials`: registry credentials of users and workspaces of the built-in platform. */
export const credentialsCommand: CommandGroup = {
  summary: 'Manage the registry credentials of the built-in platform',
  actions: {
    add: {
      summary: 'Add registry credentials of a user or a workspace',
      usage: [
        'REGISTRY[/PATH] [--user EMAIL] --username NAME --password-stdin',
        'REGISTRY[/PATH] --workspace NAME|NUMBER --username NAME --password-stdin',
      ],
      options: {
        ...ownerOptions,
        username: { type: 'string', value: 'NAME', description: 'User name at the registry' },
        'password-stdin': {
          type: 'boolean',
          description: 'Read the password or token from standard input. Required',
        },
        name: {
          type: 'string',
          value: 'NAME',
          description: 'Name of the credentials. Default: the registry',
        },
        ...platformOptions,
      },
      variables,
      async run(values, args) {
        const registry = only(args, 'REGISTRY[/PATH]');
        const userName = required(values, 'username', 'NAME');
        if (!values['password-stdin']) throw new UsageError('Missing option: --password-stdin');
        const owner = ownerOf(values);
        if (!owner && !isOfUser(values))
          throw new UsageError('Missing option: --user EMAIL or --workspace NAME');
        const keys = { registry, userName, password: await readPassword('--password-stdin') };
        const { credentials } = (await withPlatform(
          values,
          async ask =>
            ask('POST', '/credentials', {
              ...(await owner?.(ask)),
              credentials: { name: text(values, 'name'), provider: 'container-reg', keys },
            }),
          ofUser,
        )) as { credentials: CredentialsResponse };
        const { name, id } = credentials;
        print(values, credentials, `Added ${name} of ${ownerText(credentials)}: ${id}`);
        return 0;
      },
    },

    list: {
      summary: 'List the credentials, without passwords',
      usage: [''],
      options: { ...ownerOptions, ...platformOptions },
      variables,
      async run(values, args) {
        none(args);
        const owner = ownerOf(values);
        const credentials = await withPlatform(values, ask => listOf(ask, owner), ofUser);
        const rows = credentials.map(found => [
          found.id,
          ownerText(found),
          found.name,
          found.keys.registry ?? found.provider,
          found.keys.userName ?? found.keys.accessKey ?? found.keys.clientId ?? '-',
          found.lastUsed === null ? 'never' : found.lastUsed.slice(0, 10),
        ]);
        const header = ['id', 'owner', 'name', 'registry', 'username', 'last used'];
        print(values, { credentials }, table(header, rows));
        return 0;
      },
    },

    remove: {
      summary: 'Remove credentials',
      usage: ['ID', 'REGISTRY[/PATH]|NAME'],
      options: { ...ownerOptions, ...platformOptions },
      variables,
      async run(values, args) {
        const which = only(args, 'ID|REGISTRY[/PATH]|NAME');
        const owner = ownerOf(values);
        const credentials = await withPlatform(
          values,
          async ask => {
            const found = chosen(await listOf(ask, owner), which);
            await ask('DELETE', `/credentials/${found.id}`);
            return found;
          },
          ofUser,
        );
        const line = `Removed ${credentials.name} of ${ownerText(credentials)}`;
        print(values, { removed: credentials }, line);
        return 0;
      },
    },
  },
};

function ownerText({ user, workspace }: CredentialsResponse): string {
  return user ?? `workspace ${workspace}`;
}

/** Returns the query that names an owner to the platform. */
type Owner = (ask: AskPlatform) => Promise<Record<string, string>>;

async function listOf(ask: AskPlatform, owner: Owner | undefined): Promise<CredentialsResponse[]> {
  return listAll<CredentialsResponse>(ask, '/credentials', 'credentials', await owner?.(ask));
}

/** Returns the owner that the options name; undefined when they name none. */
function ownerOf(values: Values): Owner | undefined {
  const [user, workspace] = [text(values, 'user'), text(values, 'workspace')];
  if (user !== undefined && workspace !== undefined) {
    throw new UsageError('--user and --workspace exclude each other: credentials have one owner');
  }
  // Only administrators look up users and workspaces of others.
  const isOwn = isOfUser(values);
  if (user !== undefined)
    return async ask => ({ user: isOwn ? user : (await findUser(ask, user)).email });
  if (workspace === undefined) return undefined;
  if (isOwn)
    return async ask => ({
      workspaceId: await ownWorkspace(workspace, path => ask('GET', path)),
    });
  return async ask => ({ workspaceId: String((await findWorkspace(ask, workspace)).id) });
}

/** Returns the credentials with that id, or the only ones with that registry or name. */
function chosen(all: readonly CredentialsResponse[], which: string): CredentialsResponse {
  const ofId = all.find(({ id }) => id === which);
  const named = all.filter(({ name, keys }) => name === which || keys.registry === which);
  const [first, ...more] = ofId ? [ofId] : named;
  if (!first) {
    throw new CommandError(
      `The credentials ${which} do not exist. To list all credentials: sluice credentials list`,
    );
  }
  if (more.length === 0) return first;
  const ids = named.map(found => `${found.id} of ${ownerText(found)}`).join(', ');
  throw new CommandError(
    `Several credentials match ${which}: ${ids}. Specify the id, --user or --workspace`,
  );
}
