import { Fault } from '../../foundation/fault.ts';
import type { CredentialOwner } from '../../storage/rows/index.ts';
import type { Actor, Backend } from './entry-point.ts';

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
