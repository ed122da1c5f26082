import { randomBytes } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { withoutSlashes } from '../../foundation/text.ts';
import { parseReference, registryHost, withoutApi } from '../../oci/naming.ts';
import type {
  CredentialOwner,
  CredentialRow,
  CredentialStore,
  Listed,
  ListedCredentialRow,
  NotAdded,
  Page,
  SecretBox,
} from '../../storage/rows/index.ts';
import { keysDocument, readKeys } from '../credentials/keys-document.ts';
import { credentialsPlace } from '../seal-again.ts';
import type { CredentialKeys } from '../workflow-platform.ts';
import { checkName, noteUse } from './access-tokens.ts';

/** The part of the keys that is not secret. */
interface ShownKeys {
  readonly registry?: string;
  readonly userName?: string;
  readonly accessKey?: string;
  readonly assumeRoleArn?: string;
  readonly clientId?: string;
}

/** Credentials as lists show them. */
export interface KeptCredentials extends Omit<ListedCredentialRow, 'shown'> {
  readonly shown: ShownKeys;
}

interface NewCredentials {
  readonly owner: CredentialOwner;
  /** Default: the registry that the credentials are for. */
  readonly name?: string | undefined;
  readonly description?: string | undefined;
  readonly keys: CredentialKeys;
  /** `host[/path]` that keys other than `container-reg` are for. Default: every registry of their cloud. */
  readonly registry?: string | undefined;
}

/** Registry credentials of users and workspaces. Only `keys` returns their secrets. */
export interface Vault {
  /**
   * Throws a {@link Fault}: 400 for unusable keys, 409 when the owner already has credentials of this name, 404 when
   * the owner does not exist.
   */
  add(credentials: NewCredentials): Promise<KeptCredentials>;
  /** Lists the credentials of one owner, or of all. */
  list(owner: CredentialOwner | undefined, page: Page): Promise<Listed<KeptCredentials>>;
  /** Throws a {@link Fault} (404), as the next two methods do. */
  find(id: string): Promise<KeptCredentials>;
  /** Returns the secret and records the use. */
  keys(id: string): Promise<CredentialKeys>;
  remove(id: string): Promise<void>;
}

const idBytes = 12;
const maxOfOwner = 500;
const longestSecret = 32_768;
// Every list reads these members. The longest real ones: an ARN of a role has 2048 characters at most.
const longestShown: Readonly<Record<string, number>> = {
  userName: 300,
  accessKey: 300,
  clientId: 300,
  assumeRoleArn: 2048,
};
const shownMembers = ['userName', 'accessKey', 'assumeRoleArn', 'clientId'] as const;

export function createVault(store: CredentialStore, box: SecretBox, now: () => number): Vault {
  const row = async (id: string): Promise<CredentialRow> => {
    const found = await store.find(id);
    if (!found) throw unknownCredentials(id);
    return found;
  };
  return {
    async add({ owner, name, description, keys: given, registry: where }) {
      const keys = checkKeys(given);
      const registry = registryOf(keys, where);
      const id = randomBytes(idBytes).toString('hex');
      const document = keysDocument(keys);
      const members = shownMembers.map(member => [member, document[member]]);
      const shown = JSON.stringify({ registry, ...Object.fromEntries(members) });
      const entry: CredentialRow = {
        id,
        owner,
        name: checkName(name ?? registry ?? keys.kind),
        description: description ?? null,
        provider: keys.kind,
        shown,
        // A secret can be decrypted only for its own row and owner, even if the rest of the database was changed.
        sealed: box.seal(JSON.stringify(document), credentialsPlace(id, owner)),
        createdAt: now(),
        usedDay: null,
      };
      const added = await store.insert(entry, maxOfOwner);
      if (added === 'added') return keptCredentials(entry);
      throw notAdded(added, entry);
    },

    async list(owner, page) {
      const { entries, total } = await store.list(owner, page);
      return { entries: entries.map(keptCredentials), total };
    },

    find: async id => keptCredentials(await row(id)),

    async keys(id) {
      const { owner, sealed, usedDay } = await row(id);
      const keys = readKeys(JSON.parse(box.open(sealed, credentialsPlace(id, owner))));
      if (!keys) throw new Error(`The credentials ${id} hold no keys`);
      await noteUse(usedDay, now(), day => store.touch(id, day));
      return keys;
    },

    async remove(id) {
      if (!(await store.remove(id))) throw unknownCredentials(id);
    },
  };
}

function notAdded(why: NotAdded, { owner, name }: CredentialRow): Fault {
  switch (why) {
    case 'unknown-owner':
      return new Fault('not-found', `The ${owner.kind} number ${owner.id} does not exist`, {
        phase: 'request',
      });
    case 'taken':
      return new Fault(
        'in-use',
        `The ${owner.kind} already has credentials '${name}': remove them, or choose another name`,
        { phase: 'request' },
      );
    case 'too-many':
      return new Fault(
        'in-use',
        `The ${owner.kind} already has ${maxOfOwner} credentials: remove some first`,
        { phase: 'request' },
      );
  }
}

/** Returns the fault for credentials that do not exist or that do not belong to the caller. */
export function unknownCredentials(id: string): Fault {
  return new Fault('not-found', `The credentials ${id.slice(0, 40)} do not exist`, {
    phase: 'credentials',
  });
}

/** Returns the part of a stored row that is not secret. */
function keptCredentials(row: ListedCredentialRow & Partial<CredentialRow>): KeptCredentials {
  const { sealed: _, shown, ...entry } = row;
  return { ...entry, shown: JSON.parse(shown) };
}

/** Returns the keys in their usual spelling. Throws a {@link Fault} (400) that names a missing member. */
function checkKeys(keys: CredentialKeys): CredentialKeys {
  for (const [name, value] of Object.entries(keysDocument(keys))) {
    const isSecretFile = name === 'data';
    if (value === undefined) continue;
    const longest = longestShown[name] ?? longestSecret;
    if (value.length > longest || (!isSecretFile && /\p{Cc}/u.test(value))) {
      throw refusedKeys(
        `'${name}' has more than ${longest} characters, or contains an unprintable character`,
      );
    }
  }
  switch (keys.kind) {
    case 'container-reg':
      requireLogin(keys);
      return { ...keys, registry: registryScope(keys.registry) };
    case 'aws': {
      const hasKeys = Boolean(keys.accessKey && keys.secretKey);
      const hasHalf = Boolean(keys.accessKey) !== Boolean(keys.secretKey);
      if (hasHalf || !(hasKeys || keys.assumeRoleArn)) {
        throw refusedKeys("send 'accessKey' and 'secretKey', 'assumeRoleArn', or all three");
      }
      return keys;
    }
    case 'google':
      if (!keys.data) throw refusedKeys("'data', the key file of a service account, is missing");
      return keys;
    case 'azure':
      if (!keys.clientId || !keys.clientSecret) {
        throw refusedKeys("'clientId' and 'clientSecret' of a service principal are required");
      }
      return keys;
    case 'other':
      throw refusedKeys(
        'the provider is unknown, or its keys are incomplete: container-reg requires userName and password',
      );
    default:
      requireLogin(keys);
      return keys;
  }
}

/**
 * Returns the registry that the keys are for; undefined for all registries of their cloud. Throws a {@link Fault}
 * (400) when it is unknown.
 */
function registryOf(keys: CredentialKeys, given: string | undefined): string | undefined {
  if (keys.kind === 'container-reg') return keys.registry;
  if (given !== undefined) return registryScope(given);
  switch (keys.kind) {
    case 'github':
      return 'ghcr.io';
    case 'gitlab':
      return 'registry.gitlab.com';
    case 'bitbucket':
    case 'gitea':
      throw refusedKeys("'registry' is missing: send the host of the container registry");
    default:
      return undefined;
  }
}

function requireLogin({ username, password }: { username: string; password: string }): void {
  if (username === '' || password === '')
    throw refusedKeys("'userName' and 'password' are required");
  // Every registry takes these keys by HTTP basic authentication, which cannot represent a colon in a user name.
  if (username.includes(':')) throw refusedKeys("'userName' contains a colon");
}

function refusedKeys(why: string): Fault {
  return new Fault('bad-request', `The keys cannot be used: ${why}`, { phase: 'request' });
}

// The grammar needs this much to distinguish a host from a path.
const insideRegistry = '/x/x';

/**
 * Returns the canonical spelling of the registry, or part of one, that credentials are for: `host[:port][/path]`,
 * without protocol. The default is Docker Hub, `docker.io`. Throws a {@link Fault} (400).
 */
function registryScope(text = 'docker.io'): string {
  const name = withoutSlashes(withoutApi(text))
    // Docker writes Docker Hub into its configuration like this.
    .replace(/^(index\.docker\.io)\/v1$/i, '$1');
  if (registryHost(name) === undefined) throw refusedRegistry();
  try {
    const { registry, repository } = parseReference(name + insideRegistry);
    return `${registry}/${repository}`.slice(0, -insideRegistry.length);
  } catch {
    throw refusedRegistry();
  }
}

/** Leaves out the text, and any cause that contains it: it may be a password in the wrong place. */
function refusedRegistry(): Fault {
  return new Fault(
    'bad-request',
    "'registry' is not the name of a registry: send its host, with a path if you want, such as quay.io/team; Docker Hub is docker.io",
    { phase: 'request' },
  );
}
