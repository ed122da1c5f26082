import { Fault } from '../../foundation/fault.ts';
import { canonicalRegistry } from '../../oci/naming.ts';
import type { CredentialSource, Credentials } from '../../upstream/auth/index.ts';
import type { CredentialKeys, Grant, Platform } from '../workflow-platform.ts';
import type { EcrLogin } from './ecr.ts';
import { ecrRegistry } from './ecr-registry.ts';
import { loginFor } from './registry-login.ts';
import { type Candidate, candidatesFor, credentialScope, isWithin } from './registry-match.ts';

/** Credentials for a repository, and their owner. */
export interface FoundCredentials {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  readonly owner: 'workspace' | 'user';
  readonly credentials: Credentials;
}

/** Selects the credentials for a repository among those that a user has at a platform. */
export interface Selection {
  /**
   * Returns the credentials of the workspace, if there is one, before those of the user. Among them, the exact host
   * with the longest path that contains the repository wins. Returns undefined when there are none, and never falls
   * back to another owner's. Throws the platform's `Fault`s, except for single credentials that cannot be read.
   */
  find(
    grant: Grant,
    workspaceId: string | undefined,
    registry: string,
    repository?: string,
  ): Promise<FoundCredentials | undefined>;
  credentialsOf(grant: Grant, workspaceId?: string): CredentialSource;
}

export interface SelectionDeps {
  readonly platform: Platform;
  readonly ecr: EcrLogin;
}

interface Owner {
  readonly owner: FoundCredentials['owner'];
  readonly workspaceId: string | undefined;
}

export function createSelection({ platform, ecr }: SelectionDeps): Selection {
  /** Returns the keys; undefined when the token is valid but has no right to them. */
  const keysOf = async (
    grant: Grant,
    id: string,
    workspaceId: string | undefined,
  ): Promise<CredentialKeys | undefined> => {
    try {
      return await platform.keys(grant, id, workspaceId);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      await platform.user(grant);
      return undefined;
    }
  };

  const login = async (
    { entry, isNamed }: Candidate,
    host: string,
    keys: CredentialKeys,
  ): Promise<Credentials | undefined> => {
    const how = loginFor(host, keys);
    if (!how && isNamed) {
      throw new Fault(
        'bad-request',
        `The credentials '${entry.name}' cannot be used for ${host}: they require a user name and a password or token`,
        { phase: 'credentials' },
      );
    }
    if (how?.kind !== 'aws') return how;
    const registry = ecrRegistry(host);
    return registry && ecr(registry, how.keys, entry.name);
  };

  const findAmong = async (
    grant: Grant,
    { owner, workspaceId }: Owner,
    registry: string,
    repository: string | undefined,
    refusals: unknown[],
  ): Promise<FoundCredentials | undefined> => {
    const host = canonicalRegistry(registry);
    const entries = await platform.credentials(grant, workspaceId);
    for (const candidate of candidatesFor(entries, registry, repository)) {
      const { id, name, provider } = candidate.entry;
      const keys = await keysOf(grant, id, workspaceId);
      if (!keys || !isStillFor(keys, registry, repository)) continue;
      try {
        const credentials = await login(candidate, host, keys);
        if (credentials) return { id, name, provider, owner, credentials };
      } catch (error) {
        // An account of the cloud that was not made for this registry may well have no right to it.
        if (candidate.isNamed || !isRefusal(error)) throw error;
        refusals.push(error);
      }
    }
    return undefined;
  };

  const find: Selection['find'] = async (grant, workspaceId, registry, repository) => {
    const owners: Owner[] = [{ owner: 'user', workspaceId: undefined }];
    if (workspaceId !== undefined) owners.unshift({ owner: 'workspace', workspaceId });
    const refusals: unknown[] = [];
    for (const owner of owners) {
      const found = await findAmong(grant, owner, registry, repository, refusals);
      if (found) return found;
    }
    // A private registry of AWS always requires an account, so report why one failed.
    const isPrivate = ecrRegistry(canonicalRegistry(registry))?.kind === 'private';
    if (refusals.length > 0 && isPrivate) throw refusals[0];
    return undefined;
  };

  return {
    find,
    credentialsOf: (grant, workspaceId) => async (registry, repository) =>
      (await find(grant, workspaceId, registry, repository))?.credentials,
  };
}

/** A secret goes only to the registry that it names itself, whatever the list said. */
function isStillFor(
  keys: CredentialKeys,
  registry: string,
  repository: string | undefined,
): boolean {
  if (keys.kind !== 'container-reg' || keys.registry === undefined) return true;
  return isWithin(credentialScope(keys.registry), registry, repository);
}

function isRefusal(error: unknown): boolean {
  return error instanceof Fault && (error.kind === 'denied' || error.kind === 'not-found');
}
