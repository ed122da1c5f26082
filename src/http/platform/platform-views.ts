import {
  type AccessToken,
  type BuiltInPlatform,
  type KeptCredentials,
  tokenScopes,
  type Workspace,
} from '../../platform/built-in/index.ts';
import type { AuditEntry, UserRow } from '../../storage/rows/index.ts';

/** Returns a user as responses show it. */
export function userView({ id, email, createdAt }: UserRow) {
  return {
    id,
    userName: email.slice(0, email.indexOf('@')),
    email,
    dateCreated: timeText(createdAt),
  };
}

export function workspaceView({ id, name, createdAt }: Workspace) {
  return { id, name, dateCreated: timeText(createdAt) };
}

/** Returns a workspace for the list of one of its members, in the form that workflow engines read. */
export function memberWorkspaceView({ id, name }: Workspace) {
  return {
    // The server is the only organization.
    orgId: 1,
    orgName: organization,
    workspaceId: id,
    workspaceName: name,
    workspaceFullName: `${organization}/${name}`,
    visibility: 'PRIVATE',
    roles: ['member'],
  };
}

const organization = 'sluice';

export async function tokenView(
  { id, name, user, createdAt, expiresAt, usedDay, rights, creator }: AccessToken,
  platform: BuiltInPlatform,
) {
  return {
    id,
    name,
    user: (await platform.users.get(user)).email,
    dateCreated: timeText(createdAt),
    expiration: expiresAt === null ? null : timeText(expiresAt),
    lastUsed: dayText(usedDay),
    scopes: [...(rights?.scopes ?? tokenScopes)],
    repositories: rights?.repositories ? [...rights.repositories] : null,
    createdBy: creator,
  };
}

/** Describes a token for the audit log: its name, its limits and its user. */
export function describeToken({ name, rights }: AccessToken, email: string): string {
  const { scopes, repositories = [] } = rights ?? {};
  const limits = scopes ? ` (${[scopes.join(', '), ...repositories].join(' ')})` : '';
  return `'${name}' of ${email}${limits}`;
}

/** Returns credentials as responses show them, without their secret. */
export async function credentialsView(
  { id, owner, name, description, provider, shown, createdAt, usedDay }: KeptCredentials,
  { users, workspaces }: BuiltInPlatform,
) {
  return {
    id,
    name,
    ...(description === null ? {} : { description }),
    provider,
    keys: shown,
    ...(owner.kind === 'user'
      ? { user: (await users.get(owner.id)).email }
      : { workspace: (await workspaces.get(owner.id)).name }),
    dateCreated: timeText(createdAt),
    lastUsed: dayText(usedDay),
  };
}

/** Describes credentials for the audit log: their name, registry and owner. */
export async function describeCredentials(
  kept: KeptCredentials,
  platform: BuiltInPlatform,
): Promise<string> {
  const view = await credentialsView(kept, platform);
  const owner = 'user' in view ? view.user : `workspace ${view.workspace}`;
  return `'${view.name}' for ${view.keys.registry ?? view.provider} of ${owner}`;
}

/** Returns an entry of the audit log as responses show it. */
export function auditView({ id, at, actor, client, action, target }: AuditEntry) {
  return {
    id,
    time: timeText(at),
    actor,
    ...(client === null ? {} : { client }),
    action,
    target,
  };
}

/** Returns a time as `YYYY-MM-DDTHH:MM:SSZ`. Source: platform specification, section 1. */
function timeText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

function dayText(day: string | null): string | null {
  return day === null ? null : `${day}T00:00:00Z`;
}
