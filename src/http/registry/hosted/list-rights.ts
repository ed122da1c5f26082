import type { IncomingMessage } from 'node:http';
import { Fault } from '../../../foundation/fault.ts';
import type { Rights } from '../../../hosted/accounts/index.ts';
import {
  type Authenticator,
  type RepositorySources,
  unknownRepository,
} from '../../../hosted/index.ts';
import { readBasic } from '../../callers/basic-auth.ts';
import type { RegistryAuth } from '../login/registry-auth.ts';

/** What lists of hosted repositories are made of. */
export interface ListedRepositories extends RepositorySources {
  readonly auth: RegistryAuth;
  readonly authenticator: Pick<Authenticator, 'anybody'>;
}

/** Returns the rights of a caller to hosted repositories: the same as in the registry. Throws a `Fault` (401, 429). */
export async function listRights(
  request: IncomingMessage,
  { auth, authenticator }: Pick<ListedRepositories, 'auth' | 'authenticator'>,
): Promise<Rights> {
  // An access token of a platform gives no rights in the registry beyond those of everybody.
  return readBasic(request.headers.authorization) ? auth.admitList(request) : authenticator.anybody;
}

/**
 * Returns the rights of a caller who may pull from a repository. Throws the same `Fault` (404) for a repository without
 * the right and for one that does not exist.
 */
export async function pullRights(
  request: IncomingMessage,
  name: string,
  repositories: ListedRepositories,
): Promise<Rights> {
  const rights = await listRights(request, repositories);
  if (rights(name).includes('pull')) return rights;
  throw unknownRepository(name);
}

/** The response to a caller who may pull from a repository, but not delete. */
export function mayNotDelete(name: string): Fault {
  return new Fault('denied', `Your login may not delete ${name}: log in with another account`, {
    phase: 'credentials',
  });
}
