import { randomBytes } from 'node:crypto';
import { status } from '@grpc/grpc-js';
import { Auth } from '../gen/moby/filesync/v1/auth_pb.js';
import { GrpcError, type Handler, unaryHandler } from '../grpc/grpc-server.ts';

/** A bearer token that a builder needs. Source: distribution's token authentication specification. */
export interface TokenRequest {
  /** Host as in image names; `docker.io` for Docker Hub. */
  readonly host: string;
  /** URL of the token service and the name of the service, as the registry reported them to the builder. */
  readonly realm: string;
  readonly service: string;
  /** Each has the form `repository:<name>:<actions>`. */
  readonly scopes: readonly string[];
}

/**
 * Fetches bearer tokens for a builder, each for one purpose. A builder may still request the credentials of the
 * registry, to compare them with those of an earlier build.
 */
export interface TokenSource {
  /** Returns false if the builder must fetch the registry's tokens itself, with the credentials that it gets. */
  covers(host: string): Promise<boolean>;
  /** An error that it throws is sent to the builder, which fails with it or continues without the registry. */
  fetch(request: TokenRequest): Promise<{
    readonly token: string;
    readonly lifeSeconds: number;
  }>;
}

const keyBytes = 32;

/** Answers the builder's requests for tokens. Also passes them to `onSecret`. */
export function tokenHandlers(
  tokens: TokenSource,
  onSecret: (secret: string) => void,
  onFailure: (error: unknown) => void,
): Handler[] {
  // Two sessions with the same key may share tokens. This key is random, so no other session has it.
  const PublicKey = randomBytes(keyBytes);
  return [
    unaryHandler(Auth.method.getTokenAuthority, async ({ Host }) => {
      const isCovered = await tokens.covers(hostOf(Host)).catch(error => {
        onFailure(error);
        throw new Error(`The credentials for ${Host} could not be looked up`);
      });
      if (isCovered) return { PublicKey };
      throw new GrpcError(status.UNAVAILABLE, 'The builder gets the tokens of this host itself');
    }),

    unaryHandler(Auth.method.fetchToken, async ({ Host, Realm, Service, Scopes }) => {
      const request = { host: hostOf(Host), realm: Realm, service: Service, scopes: Scopes };
      const { token, lifeSeconds } = await tokens.fetch(request).catch(error => {
        const why = error instanceof Error ? error.message : String(error);
        throw new GrpcError(status.PERMISSION_DENIED, why);
      });
      onSecret(token);
      return {
        Token: token,
        ExpiresIn: BigInt(lifeSeconds),
        IssuedAt: BigInt(Math.floor(Date.now() / 1000)),
      };
    }),
  ];
}

/** How to log in to a registry. */
export type Credentials =
  | { readonly username: string; readonly password: string }
  | { readonly identityToken: string };

/**
 * Returns the credentials for a registry, or undefined for none. `host` has the form of image names: with the port if
 * there is one, and `docker.io` for Docker Hub.
 */
export type CredentialsOf = (host: string) => Promise<Credentials | undefined>;

const dockerHubNames = [
  'docker.io',
  'index.docker.io',
  'registry-1.docker.io',
  'https://index.docker.io/v1/',
];

/** Answers the builder's requests for credentials. Also passes them to `onSecret`. */
export function credentialsHandler(
  credentialsOf: CredentialsOf,
  onSecret: (secret: string) => void,
  onFailure: (error: unknown) => void,
): Handler {
  return unaryHandler(Auth.method.credentials, async ({ Host }) => {
    try {
      const found = await credentialsOf(hostOf(Host));
      if (!found) return {};
      const isToken = 'identityToken' in found;
      const Secret = isToken ? found.identityToken : found.password;
      onSecret(Secret);
      return { Username: isToken ? '' : found.username, Secret };
    } catch (error) {
      onFailure(error);
      // The callback's message may be private. Only the caller of build() receives it.
      throw new Error(`The credentials for ${Host} could not be looked up`);
    }
  });
}

/** Returns the registry's host as image names have it, for any host that a builder requests. */
function hostOf(asked: string): string {
  return dockerHubNames.includes(asked) ? 'docker.io' : asked;
}
