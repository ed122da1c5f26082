import { Fault } from '../../foundation/fault.ts';
import type { CredentialOwner } from '../../storage/rows/people/credential-rows.ts';
import type { Actor, Backend } from './entry-point.ts';

/**
 * Whose belongings a call is about: the caller's, or those of the user that an administrator names, if one is
 * named. Throws a {@link Fault}: 403 for a user who names another one, 404 for nobody's address.
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
 * Whose credentials a call is about; undefined for an administrator who names nobody. Throws a {@link Fault}: 400
 * if both are named, 403 for a user who is not a member of the workspace, 404 for a user or workspace that does not exist.
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
