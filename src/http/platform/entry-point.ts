import { Fault } from '../../foundation/fault.ts';
import type { Version } from '../../foundation/version.ts';
import type { AdministratorRole } from '../../hosted/accounts/index.ts';
import {
  type BuiltInPlatform,
  requireScope,
  type TokenRights,
  type TokenScope,
  type User,
} from '../../platform/built-in/index.ts';
import type {
  AuditKind,
  AuditLog,
  CredentialOwner,
  MessageStore,
} from '../../storage/rows/index.ts';
import { requireRole } from '../callers/identify.ts';
import type { Declaration, Documentation } from '../route/declaration.ts';
import { type ReceivedRequest, routesOf } from '../route/pipeline.ts';

/** The caller: a user with an access token, or an administrator of the server. */
export type Actor =
  | {
      readonly kind: 'user';
      readonly user: User;
      /** Time when the access token expires, ms since the epoch; undefined if it does not expire. */
      readonly until: number | undefined;
      /** The limits of the access token; undefined for none. */
      readonly rights: TokenRights | undefined;
    }
  | {
      readonly kind: 'administrator';
      /** `account admin`, `command line (root)`. */
      readonly name: string;
      readonly roles: readonly AdministratorRole[];
    };

/** Services that every entry point uses. */
export interface Backend {
  readonly platform: BuiltInPlatform;
  readonly version: Version;
  readonly audit: Pick<AuditLog, 'add' | 'flush'>;
  /** The audit logs by what they record. */
  readonly audits: Readonly<Record<AuditKind, Pick<AuditLog, 'list'>>>;
  readonly messages: Pick<MessageStore, 'list' | 'resend' | 'resendAll'>;
}

/** A call, over HTTP or from the same process. */
export interface ApiRequest extends ReceivedRequest {
  /** Throws a {@link Fault} for a caller without a valid login. */
  readonly identify: () => Promise<Actor>;
  /** Address of the caller if the call came over the network. */
  readonly client?: string;
}

interface Noting {
  /** Records the effect of the call in the audit log. */
  readonly note: (action: string, target: string) => void;
}

interface PlatformDeclaration extends Documentation {
  /** The role that an administrator must have. Default: any. */
  readonly role?: AdministratorRole;
  /** The scope that the access token of a user must have. Default: none. */
  readonly scope?: TokenScope;
}

/** The routes of the platform API. */
export interface PlatformKind {
  readonly declares: PlatformDeclaration;
  readonly knows: {
    readonly anybody: Noting & { readonly actor: undefined };
    readonly user: Noting & { readonly actor: Extract<Actor, { kind: 'user' }> };
    readonly administrator: Noting & { readonly actor: Extract<Actor, { kind: 'administrator' }> };
    readonly either: Noting & { readonly actor: Actor };
  };
  readonly request: ApiRequest;
  /** The body of the response; nothing for a response without a body. */
  readonly returns: object | undefined;
  readonly deps: Backend;
}

/** Creates a route of the platform API. */
export const entryPoint = routesOf<PlatformKind>(
  async (route, { identify, client }, { audit }, readInput) => {
    const actor = await admitted(route, identify);
    const note = (action: string, target: string) =>
      audit.add({ actor: nameOf(actor), client, action, target });
    return {
      input: await readInput(),
      known: { actor, note } as PlatformKind['knows']['anybody' | 'either'],
    };
  },
);

/** Returns the caller as the audit log names them. */
export function nameOf(actor: Actor | undefined): string {
  if (!actor) return 'anybody';
  return actor.kind === 'user' ? `user ${actor.user.email}` : actor.name;
}

async function admitted(
  { access, role, scope }: Declaration & PlatformDeclaration,
  identify: () => Promise<Actor>,
): Promise<Actor | undefined> {
  if (access === 'anybody') return undefined;
  const actor = await identify();
  if (access === 'either' || access === actor.kind) {
    if (actor.kind === 'user' && scope) requireScope(actor.rights, scope);
    if (actor.kind === 'administrator' && role) requireRole(actor.roles, role);
    return actor;
  }
  throw new Fault(
    'denied',
    access === 'user'
      ? 'This call requires the access token of a user: send it as Authorization: Bearer <token>'
      : "This call requires the name and password of an administrator's account (HTTP basic)",
    { phase: 'credentials' },
  );
}

/**
 * Returns the id of the user whose data a call concerns: the caller, or the user that an administrator names, if any.
 * Throws a {@link Fault}: 403 for a user who names another user, 404 for an address that no user has.
 */
export async function userIdOf(
  actor: Actor,
  email: string | undefined,
  { platform }: Backend,
): Promise<number | undefined> {
  if (actor.kind === 'administrator') {
    return email === undefined ? undefined : (await platform.users.withEmail(email)).id;
  }
  if (email === undefined || email.trim().toLowerCase() === actor.user.email) return actor.user.id;
  throw new Fault('denied', 'Only an administrator can act for another user', {
    phase: 'credentials',
  });
}

/**
 * Returns the owner of the credentials that a call concerns; undefined for an administrator who names no owner. Throws
 * a {@link Fault}: 400 if the call names both a user and a workspace, 403 for a user who names another user or is not a
 * member of the workspace, 404 for a user or workspace that does not exist.
 */
export async function ownerOf(
  actor: Actor,
  named: { readonly user?: string | undefined; readonly workspaceId?: number | undefined },
  backend: Backend,
): Promise<CredentialOwner | undefined> {
  const { user, workspaceId } = named;
  if (workspaceId === undefined) {
    const id = await userIdOf(actor, user, backend);
    return id === undefined ? undefined : { kind: 'user', id };
  }
  if (user !== undefined) {
    throw new Fault(
      'bad-request',
      "'user' and 'workspaceId' exclude each other: send one of them",
      {
        phase: 'request',
      },
    );
  }
  const { workspaces } = backend.platform;
  if (actor.kind === 'user') await workspaces.requireMember(workspaceId, actor.user.id);
  else await workspaces.get(workspaceId);
  return { kind: 'workspace', id: workspaceId };
}
