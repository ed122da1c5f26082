import type { IncomingMessage } from 'node:http';
import type { Keeper } from '../../hosted/keeper.ts';
import type { Rights } from '../../hosted/rights.ts';
import { readBasic } from '../../http/callers/basic-auth.ts';
import type { RegistryAuth } from '../../http/registry/login/registry-auth.ts';

/** Returns the rights of a viewer to hosted repositories: the same as in the registry. Throws a `Fault` (401, 429). */
export async function viewerRights(
  request: IncomingMessage,
  { auth, keeper }: { readonly auth: RegistryAuth; readonly keeper: Pick<Keeper, 'anybody'> },
): Promise<Rights> {
  // An access token of a platform gives no rights in the registry beyond those of everybody.
  return readBasic(request.headers.authorization) ? auth.admitList(request) : keeper.anybody;
}
