import { randomUUID } from 'node:crypto';
import { type Client, type StatusObject, status } from '@grpc/grpc-js';
import type { FileTree } from '../files/file-tree.ts';
import { Health, HealthCheckResponse_ServingStatus } from '../gen/grpc/health/v1/health_pb.js';
import { Secrets } from '../gen/moby/buildkit/secrets/v1/secrets_pb.js';
import { Control } from '../gen/moby/buildkit/v1/control_pb.js';
import { GrpcError, type Handler, serveGrpc, unaryHandler } from '../grpc/grpc-server.ts';
import { callBidi } from '../grpc/rpc.ts';
import { Tunnel } from '../grpc/session-tunnel.ts';
import { fileSendHandler, type OpenSink } from './file-send.ts';
import { fileSyncHandler } from './file-sync.ts';
import { type CredentialsOf, credentialsHandler } from './login-question.ts';
import { type TokenSource, tokenHandlers } from './token-source.ts';

/** What a builder may ask for while it builds. */
export interface SessionServices {
  /** By the names under which the frontend asks for them. */
  readonly trees: ReadonlyMap<string, FileTree>;
  readonly credentials: CredentialsOf;
  /** Without it the builder gets all tokens itself. */
  readonly tokens: TokenSource | undefined;
  /** By id. */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
  /** By the position of the exporter. */
  readonly sinks: ReadonlyMap<number, OpenSink>;
  /** Hears of each password and token that the builder was told. */
  readonly onSecret: (secret: string) => void;
}

/** The road on which a builder asks back, for one build. */
export interface Session {
  readonly id: string;
  /** How it ended, however that came. */
  readonly ended: Promise<StatusObject>;
  /** What failed on our side first, such as a file that could not be read. */
  readonly failure: () => unknown;
  close(): void;
}

/** Opens a session on the channel; one that cannot be opened is one that ended. */
export function openSession(client: Client, services: SessionServices): Session {
  const id = randomUUID().replaceAll('-', '');
  const failures: unknown[] = [];
  const handlers = handlersOf(services, error => failures.push(error));
  const call = callBidi(client, Control.method.session, {
    'x-docker-expose-session-uuid': id,
    // The builder keeps what it was sent under this key and takes files of the same size and time for the
    // same: with a key that two builds share, one would get the other's files.
    'x-docker-expose-session-sharedkey': id,
    'x-docker-expose-session-grpc-method': handlers.map(handler => handler.path),
  });
  const tunnel = new Tunnel(call);
  const server = serveGrpc(tunnel, handlers);
  return {
    id,
    ended: tunnel.status,
    failure: () => failures[0],
    close() {
      server.destroy();
      tunnel.destroy();
    },
  };
}

function handlersOf(
  { trees, credentials, tokens, secrets, sinks, onSecret }: SessionServices,
  onFailure: (error: unknown) => void,
): Handler[] {
  return [
    // The builder gives up a session that does not answer this.
    unaryHandler(Health.method.check, async () => ({
      status: HealthCheckResponse_ServingStatus.SERVING,
    })),
    fileSyncHandler(trees, onFailure),
    credentialsHandler(credentials, onSecret, onFailure),
    ...(tokens ? tokenHandlers(tokens, onSecret, onFailure) : []),
    unaryHandler(Secrets.method.getSecret, async ({ ID }) => {
      const data = secrets.get(ID);
      if (!data) throw new GrpcError(status.NOT_FOUND, `There is no secret '${ID}'`);
      return { data };
    }),
    ...(sinks.size > 0 ? [fileSendHandler(sinks, onFailure)] : []),
  ];
}
