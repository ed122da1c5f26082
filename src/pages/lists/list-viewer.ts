import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import type { Keeper } from '../../hosted/keeper.ts';
import type { Rights } from '../../hosted/rights.ts';
import { type RequireAdministrator, readBasic } from '../../http/callers/basic-auth.ts';
import type { RegistryAuth } from '../../http/registry/login/registry-auth.ts';
import type { Viewer } from '../frame/page-route.ts';

/** Returns true for an administrator, by the viewer's session or by the account in the request. */
export async function isAdministrator(
  request: IncomingMessage,
  viewer: Viewer,
  { requireAdministrator }: { readonly requireAdministrator: RequireAdministrator },
): Promise<boolean> {
  if (viewer.isAdministrator) return true;
  if (!readBasic(request.headers.authorization)) return false;
  try {
    await requireAdministrator(request);
    return true;
  } catch (error) {
    if (error instanceof Fault && error.kind === 'denied') return false;
    throw error;
  }
}

/** Returns the rights of a viewer to hosted repositories: the same as in the registry. Throws a `Fault` (401, 429). */
export async function viewerRights(
  request: IncomingMessage,
  { isAdministrator }: Viewer,
  { auth, keeper }: { readonly auth: RegistryAuth; readonly keeper: Pick<Keeper, 'anybody'> },
): Promise<Rights> {
  if (readBasic(request.headers.authorization)) return auth.rightsOf(request);
  // An access token of a platform gives no rights in the registry beyond those of everybody.
  return isAdministrator ? () => ['pull', 'push', 'delete'] : keeper.anybody;
}
