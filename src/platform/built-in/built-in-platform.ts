import { Fault } from '../../foundation/fault.ts';
import type { CredentialOwner, Rows, SecretBox } from '../../storage/rows/index.ts';
import {
  type CredentialEntry,
  type CredentialKeys,
  type Platform,
  unknownRun,
} from '../workflow-platform.ts';
import { type AccessToken, type AccessTokens, createAccessTokens } from './access-tokens.ts';
import {
  createUsers,
  createWorkspaces,
  type User,
  type Users,
  userOf,
  type Workspaces,
} from './users.ts';
import { createVault, type KeptCredentials, unknownCredentials, type Vault } from './vault.ts';

/**
 * The platform that is part of Sluice, and its administration. Every call reads the stored data, so that a token that
 * any process revoked, or an entry that it removed, stops working with the next call.
 */
export interface BuiltInPlatform extends Platform {
  readonly users: Users;
  readonly tokens: AccessTokens;
  readonly workspaces: Workspaces;
  readonly vault: Vault;
  /** Returns the user that an access token belongs to. Throws a {@link Fault} (403). */
  holder(accessToken: string): Promise<TokenHolder>;
  /**
   * Returns the secret of the user's own credentials or, with a workspace number, of the workspace's. Throws a
   * {@link Fault}: 403 when the user is not a member of the workspace, 404 when the credentials do not exist or belong
   * to another owner.
   */
  keysFor(user: User, id: string, workspace?: number): Promise<CredentialKeys>;
}

/** The user that an access token belongs to. */
export interface TokenHolder {
  readonly user: User;
  readonly token: Pick<AccessToken, 'id' | 'expiresAt' | 'rights'>;
}

export interface BuiltInPlatformDeps {
  readonly rows: Pick<Rows, 'users' | 'accessTokens' | 'workspaces' | 'credentials'>;
  /** Encrypts the secrets of the credentials. */
  readonly secrets: SecretBox;
  readonly now?: () => number;
}

const mostCredentials = 1000;

export function createBuiltInPlatform(deps: BuiltInPlatformDeps): BuiltInPlatform {
  const { rows, secrets, now = Date.now } = deps;
  const users = createUsers(rows.users, now);
  const tokens = createAccessTokens(rows.accessTokens, now);
  const workspaces = createWorkspaces(rows.workspaces, now);
  const vault = createVault(rows.credentials, secrets, now);

  const holder = async (accessToken: string): Promise<TokenHolder> => {
    const token = await tokens.use(accessToken);
    return { user: userOf(token.holder), token };
  };
  const ownerFor = async (user: User, workspace: number | undefined): Promise<CredentialOwner> => {
    if (workspace === undefined) return { kind: 'user', id: user.id };
    await workspaces.requireMember(workspace, user.id);
    return { kind: 'workspace', id: workspace };
  };
  const keysFor = async (user: User, id: string, workspace?: number): Promise<CredentialKeys> => {
    const owner = await ownerFor(user, workspace);
    const { owner: found } = await vault.find(id);
    if (found.kind !== owner.kind || found.id !== owner.id) throw unknownCredentials(id);
    return vault.keys(id);
  };

  return {
    users,
    tokens,
    workspaces,
    vault,
    holder,
    keysFor,

    async user({ accessToken }) {
      const { user, token } = await holder(accessToken);
      const { id, userName, email } = user;
      return {
        id: String(id),
        userName,
        email,
        ...(token.rights ? { tokenRights: token.rights } : {}),
      };
    },

    async credentials({ accessToken }, workspaceId) {
      const { user } = await holder(accessToken);
      const owner = await ownerFor(user, workspaceNumber(workspaceId));
      const { entries } = await vault.list(owner, { limit: mostCredentials, offset: 0 });
      return entries.map(entryOf);
    },

    async keys({ accessToken }, credentialsId, workspaceId) {
      const { user } = await holder(accessToken);
      return keysFor(user, credentialsId, workspaceNumber(workspaceId));
    },

    // Reports of runs are accepted, and not kept.
    async run(_grant, id) {
      throw unknownRun(id);
    },
  };
}

function workspaceNumber(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new Fault(
    'bad-request',
    'The workspace id must be a whole number: send the id of the workspace, not its name',
    {
      phase: 'credentials',
    },
  );
}

function entryOf({ id, name, provider, shown, description }: KeptCredentials): CredentialEntry {
  return {
    id,
    name,
    provider,
    registry: shown.registry,
    ...(description === null ? {} : { description }),
  };
}
