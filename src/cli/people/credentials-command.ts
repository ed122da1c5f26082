import { actions, none, only, print, table } from '../action.ts';
import { type Command, CommandError, text, type Values } from '../command.ts';
import { readPassword } from './password.ts';
import { type AskPlatform, listAll, platformOptions, withPlatform } from './platform-options.ts';
import { findUser } from './user-command.ts';
import { findWorkspace } from './workspace-command.ts';

interface CredentialsAnswer {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  readonly keys: Readonly<Record<string, string | undefined>>;
  readonly user?: string;
  readonly workspace?: string;
  readonly lastUsed: string | null;
}

const addUsage =
  'credentials add REGISTRY[/PATH] --user EMAIL|--workspace NAME --username U --password-stdin';

/** `sluice credentials`: what users and workspaces of the built-in platform log in to registries with. */
export const credentialsCommand: Command = {
  summary: 'Add, list and remove registry credentials of the built-in platform',
  usage: `${addUsage} | credentials list | credentials remove ID|REGISTRY[/PATH] [options]`,
  options: {
    user: { type: 'string', value: 'EMAIL', description: 'Whose credentials; list: only those' },
    workspace: { type: 'string', value: 'NAME', description: 'The workspace that shares them' },
    username: { type: 'string', value: 'NAME', description: 'User name at the registry' },
    'password-stdin': {
      type: 'boolean',
      description: 'Read the password or token from standard input',
    },
    name: { type: 'string', value: 'NAME', description: 'Default: the registry' },
    ...platformOptions,
  },
  ...actions('credentials', {
    async add(values, args) {
      const registry = only(args, addUsage);
      const userName = text(values, 'username');
      if (userName === undefined || !values['password-stdin']) {
        throw new CommandError(`Usage: sluice ${addUsage}`, 2);
      }
      const owner = ownerOf(values);
      if (!owner) throw new CommandError('Say whose they are: --user EMAIL or --workspace NAME', 2);
      const keys = { registry, userName, password: await readPassword('--password-stdin') };
      const { credentials } = (await withPlatform(values, async ask =>
        ask('POST', '/credentials', {
          ...(await owner(ask)),
          credentials: { name: text(values, 'name'), provider: 'container-reg', keys },
        }),
      )) as { credentials: CredentialsAnswer };
      const whose = credentials.user ?? credentials.workspace;
      print(values, credentials, `Added ${credentials.name} for ${whose}: ${credentials.id}`);
    },

    async list(values, args) {
      none(args, 'credentials list [--user EMAIL|--workspace NAME]');
      const owner = ownerOf(values);
      const credentials = await withPlatform(values, ask => listOf(ask, owner));
      const rows = credentials.map(({ id, name, provider, keys, user, workspace, lastUsed }) => [
        id,
        user ?? `workspace ${workspace}`,
        name,
        keys.registry ?? provider,
        keys.userName ?? keys.accessKey ?? keys.clientId ?? '',
        lastUsed === null ? 'not used' : `used ${lastUsed.slice(0, 10)}`,
      ]);
      print(values, { credentials }, table(rows));
    },

    async remove(values, args) {
      const which = only(args, 'credentials remove ID|REGISTRY[/PATH]');
      const owner = ownerOf(values);
      const credentials = await withPlatform(values, async ask => {
        const found = chosen(await listOf(ask, owner), which);
        await ask('DELETE', `/credentials/${found.id}`);
        return found;
      });
      const whose = credentials.user ?? credentials.workspace;
      print(values, { removed: credentials }, `Removed ${credentials.name} of ${whose}`);
    },
  }),
};

/** Finds out how the platform calls an owner. */
type Owner = (ask: AskPlatform) => Promise<Record<string, string>>;

async function listOf(ask: AskPlatform, owner: Owner | undefined): Promise<CredentialsAnswer[]> {
  return listAll<CredentialsAnswer>(ask, '/credentials', 'credentials', await owner?.(ask));
}

/** The owner that the options name; undefined when they name none. */
function ownerOf(values: Values): Owner | undefined {
  const [user, workspace] = [text(values, 'user'), text(values, 'workspace')];
  if (user !== undefined && workspace !== undefined) {
    throw new CommandError('Credentials belong to a --user or to a --workspace, not to both', 2);
  }
  if (user !== undefined) return async ask => ({ user: (await findUser(ask, user)).email });
  if (workspace === undefined) return undefined;
  return async ask => ({ workspaceId: String((await findWorkspace(ask, workspace)).id) });
}

/** Those of that id, else the only ones of that registry or name. */
function chosen(all: readonly CredentialsAnswer[], which: string): CredentialsAnswer {
  const ofId = all.find(({ id }) => id === which);
  const named = all.filter(({ name, keys }) => name === which || keys.registry === which);
  const [only, ...more] = ofId ? [ofId] : named;
  if (!only) {
    throw new CommandError(
      'There are no such credentials: sluice credentials list tells which there are',
    );
  }
  if (more.length === 0) return only;
  const ids = named.map(({ id, user, workspace }) => `${id} of ${user ?? workspace}`).join(', ');
  throw new CommandError(`There are several: ${ids}. Give the id, or --user or --workspace`);
}
