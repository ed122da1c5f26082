import type { CredentialSource, Credentials } from './credentials.ts';

/** A repository, and the right with which it is accessed. */
export interface Access {
  readonly registry: string;
  readonly repository: string;
  readonly credentials: Credentials | undefined;
  /** Use the right of the service itself, which only hosted repositories recognize. */
  readonly isService?: boolean;
  /** The network for which documents are cached, for a caller without a login. */
  readonly network?: string | undefined;
  /** Rights beyond pulling from the repository. */
  readonly pushes?: Pushes;
}

/** The right to push, and to mount blobs from another repository of the registry. */
export interface Pushes {
  readonly mountFrom?: string | undefined;
}

/** Returns the access to a repository with the credentials for its registry. */
export async function accessTo(
  { registry, repository }: Pick<Access, 'registry' | 'repository'>,
  credentials: CredentialSource,
): Promise<Access> {
  return { registry, repository, credentials: await credentials(registry, repository) };
}
