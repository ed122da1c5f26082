import { Fault } from '../foundation/fault.ts';
import type { TokenRights } from './token-rights.ts';

/** The part of a request that identifies the caller and gives access to credentials. */
export interface Grant {
  /** Address of the platform, as the request names it. */
  readonly endpoint: string;
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
}

/** Which of their builds a user wants an e-mail about. */
export type BuildMail = 'always' | 'errors' | 'never';

/** The owner of a token. `id` is unique only within its platform. */
export interface PlatformUser {
  readonly id: string;
  readonly userName: string;
  readonly email: string | undefined;
  /** Undefined for a user without a preference. */
  readonly buildMail?: BuildMail | undefined;
  /** The limits of the token; undefined for none. Only platforms of Sluice have tokens with limits. */
  readonly tokenRights?: TokenRights | undefined;
}

/** One entry in the credentials of a user or workspace, without its secret. */
export interface CredentialEntry {
  readonly id: string;
  readonly name: string;
  /** `container-reg`, `aws`, `google`, `azure`, `github`, `gitlab`, ... */
  readonly provider: string;
  /** `host[/path]`; undefined for credentials that are not bound to a registry, and for Docker Hub. */
  readonly registry: string | undefined;
  readonly description?: string | undefined;
}

/** The secret of one entry, by kind. */
export type CredentialKeys =
  | {
      readonly kind: 'container-reg';
      readonly username: string;
      readonly password: string;
      /** `host[/path]`; undefined for Docker Hub. */
      readonly registry: string | undefined;
    }
  /** Keys of an account, a role to assume, or keys that may assume the role. */
  | {
      readonly kind: 'aws';
      readonly accessKey: string | undefined;
      readonly secretKey: string | undefined;
      readonly assumeRoleArn: string | undefined;
      readonly externalId: string | undefined;
    }
  /** `data` is the key file of a service account (JSON text). */
  | { readonly kind: 'google'; readonly data: string }
  /** A service principal. */
  | { readonly kind: 'azure'; readonly clientId: string; readonly clientSecret: string }
  /** User of a git host and its password or token, which the host's registry also accepts. */
  | {
      readonly kind: 'github' | 'gitlab' | 'bitbucket' | 'gitea';
      readonly username: string;
      readonly password: string;
    }
  /** A secret that no registry accepts. */
  | { readonly kind: 'other'; readonly discriminator: string };

/**
 * A platform, local or remote. All methods throw a `Fault` of phase `credentials`: 403 `denied` for an invalid or
 * expired token and for a missing right, 404 `not-found` for credentials that do not exist, 400 for requests that the
 * platform rejects as invalid, and 502, 503 and 504 for the platform's own failures.
 */
export interface Platform {
  user(grant: Grant): Promise<PlatformUser>;
  /** Returns the credentials of the workspace; without a workspace, those of the user. */
  credentials(grant: Grant, workspaceId?: string): Promise<readonly CredentialEntry[]>;
  keys(grant: Grant, credentialsId: string, workspaceId?: string): Promise<CredentialKeys>;
  /** Returns the status of a run, such as `SUBMITTED`, `RUNNING` or `SUCCEEDED`. */
  run(grant: Grant, id: string, workspaceId?: string): Promise<string>;
}

/** The fault for a run that a platform does not know. */
export function unknownRun(id: string): Fault {
  return new Fault('not-found', `The platform does not know the run ${id.slice(0, 40)}`, {
    phase: 'credentials',
  });
}
