import type { CredentialSource, Credentials } from './auth/credentials.ts';

/** A repository, and the right in which it is asked. */
export interface Access {
  readonly registry: string;
  readonly repository: string;
  readonly credentials: Credentials | undefined;
  /** In the right of the service itself, which counts with the hosted repositories only. */
  readonly isService?: boolean;
  /** The network for which documents are kept, for a caller without a login. */
  readonly network?: string | undefined;
  /** More than to pull from the repository. */
  readonly pushes?: Pushes;
}

/** The right to push, and to take blobs over from another repository of the registry. */
export interface Pushes {
  readonly mountFrom?: string | undefined;
}

/** A repository in the right that the credentials for its registry give. */
export async function accessTo(
  { registry, repository }: Pick<Access, 'registry' | 'repository'>,
  credentials: CredentialSource,
): Promise<Access> {
  return { registry, repository, credentials: await credentials(registry, repository) };
}
