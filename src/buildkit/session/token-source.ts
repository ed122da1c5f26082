import { randomBytes } from 'node:crypto';
import { status } from '@grpc/grpc-js';
import { Auth } from '../gen/moby/filesync/v1/auth_pb.js';
import { GrpcError, type Handler, unaryHandler } from '../grpc/grpc-server.ts';
import { hostOf } from './login-question.ts';

/** A bearer token that a builder needs. Source: distribution's token authentication specification. */
export interface TokenQuestion {
  /** As in image names, `docker.io` for Docker Hub. */
  readonly host: string;
  /** URL of the token service, and what it is to be told, as the registry has named them to the builder. */
  readonly realm: string;
  readonly service: string;
  /** `repository:<name>:<actions>` each. */
  readonly scopes: readonly string[];
}

/**
 * Gets bearer tokens for a builder, each for what it is needed for. A builder may ask for the credentials of
 * the registry all the same, to compare them with those of a build before.
 */
export interface TokenSource {
  /** False for a registry that the builder is to ask itself, with the credentials that there are for it. */
  covers(host: string): Promise<boolean>;
  /** What it throws is told to the builder, which fails with it or does without the registry. */
  fetch(question: TokenQuestion): Promise<{
    readonly token: string;
    readonly lifeSeconds: number;
  }>;
}

const keyBytes = 32;

/** Answers the builder's questions for tokens, which are handed to `onSecret` too. */
export function tokenHandlers(
  tokens: TokenSource,
  onSecret: (secret: string) => void,
  onFailure: (error: unknown) => void,
): Handler[] {
  // The key by which two sessions would be known as one that may share tokens. None has this one.
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
      const question = { host: hostOf(Host), realm: Realm, service: Service, scopes: Scopes };
      const { token, lifeSeconds } = await tokens.fetch(question).catch(error => {
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
