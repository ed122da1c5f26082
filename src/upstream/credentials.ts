import { createHash } from 'node:crypto';

/** Proves the caller's identity to a registry. */
export type Credentials =
  | { readonly kind: 'password'; readonly username: string; readonly password: string }
  /** An OAuth2 refresh token, as docker keeps for `docker login` with an identity provider. */
  | { readonly kind: 'identity-token'; readonly token: string };

/**
 * Finds the credentials for a registry, by its exact host and port. Where several exist for parts of the registry,
 * returns those for the longest path that contains the repository.
 */
export type CredentialSource = (
  registry: string,
  repository?: string,
) => Promise<Credentials | undefined>;

/** Tries each source in order and returns the first credentials found. */
export function firstOf(...sources: readonly CredentialSource[]): CredentialSource {
  return async (registry, repository) => {
    for (const source of sources) {
      const credentials = await source(registry, repository);
      if (credentials) return credentials;
    }
    return undefined;
  };
}

/** Returns the value of a Basic `Authorization` header. Source: RFC 7617. */
export function basicHeader(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

/** Returns a key that two callers share only when their credentials are the same; it does not reveal them. */
export function credentialKey(credentials: Credentials | undefined): string {
  if (!credentials) return 'anonymous';
  const text =
    credentials.kind === 'password'
      ? JSON.stringify(['password', credentials.username, credentials.password])
      : JSON.stringify(['identity', credentials.token]);
  return createHash('sha256').update(text).digest('base64url');
}
