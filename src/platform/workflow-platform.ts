/** What a request carries to be known and to be given credentials with. */
export interface Grant {
  /** Address of the platform, as the request names it. */
  readonly endpoint: string;
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
}

/** Whose token it is. `id` is unique within its platform only. */
export interface PlatformUser {
  readonly id: string;
  readonly userName: string;
  readonly email: string | undefined;
}

/** One of the credentials that a user or workspace has, without its secret. */
export interface CredentialEntry {
  readonly id: string;
  readonly name: string;
  /** `container-reg`, `aws`, `google`, `azure`, `github`, `gitlab`, ... */
  readonly provider: string;
  /** `host[/path]`; undefined for what is not bound to a registry, and for Docker Hub. */
  readonly registry: string | undefined;
  readonly description?: string | undefined;
}

/** The secret of one, by what it is a secret for. */
export type CredentialKeys =
  | {
      readonly kind: 'container-reg';
      readonly username: string;
      readonly password: string;
      /** `host[/path]`; undefined for Docker Hub. */
      readonly registry: string | undefined;
    }
  /** Keys of an account, a role to take, or keys that may take the role. */
  | {
      readonly kind: 'aws';
      readonly accessKey: string | undefined;
      readonly secretKey: string | undefined;
      readonly assumeRoleArn: string | undefined;
      readonly externalId: string | undefined;
    }
  /** `data` is the key file of a service account: JSON text. */
  | { readonly kind: 'google'; readonly data: string }
  /** A service principal. */
  | { readonly kind: 'azure'; readonly clientId: string; readonly clientSecret: string }
  /** A git host's user and its password or token, which its registry takes as well. */
  | {
      readonly kind: 'github' | 'gitlab' | 'bitbucket' | 'gitea';
      readonly username: string;
      readonly password: string;
    }
  /** Nothing that a registry could be given. */
  | { readonly kind: 'other'; readonly discriminator: string };

/**
 * A platform, in whatever way it is reached. All methods throw a `Fault` of phase `credentials`: 403 `denied`
 * for an invalid or expired token and for what the token has no right to, 404 `not-found` for credentials that
 * are not there, 400 for what the platform says is wrong, 502, 503 and 504 for the platform's own failures.
 */
export interface Platform {
  user(grant: Grant): Promise<PlatformUser>;
  /** Those of the workspace; without one those of the user. */
  credentials(grant: Grant, workspaceId?: string): Promise<readonly CredentialEntry[]>;
  keys(grant: Grant, credentialsId: string, workspaceId?: string): Promise<CredentialKeys>;
}
