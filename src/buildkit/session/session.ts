import { randomUUID } from 'node:crypto';
import { type Client, type StatusObject, status } from '@grpc/grpc-js';
import type { FileTree } from '../files/file-tree.ts';
import { Health, HealthCheckResponse_ServingStatus } from '../gen/grpc/health/v1/health_pb.js';
import { Secrets } from '../gen/moby/buildkit/secrets/v1/secrets_pb.js';
import { Control } from '../gen/moby/buildkit/v1/control_pb.js';
import { GrpcError, type Handler, serveGrpc, unaryHandler } from '../grpc/grpc-server.ts';
import { callBidi } from '../grpc/rpc.ts';
import { Tunnel } from '../grpc/session-tunnel.ts';
import { type BlobSink, blobSendHandler } from './blob-send.ts';
import { fileSendHandler, type OpenSink } from './file-send.ts';
import { fileSyncHandler } from './file-sync.ts';
import { type CredentialsOf, credentialsHandler } from './login-question.ts';
import type { SshAgent } from './ssh/ssh-agent.ts';
import { sshHandlers } from './ssh-forward.ts';
import { type TokenSource, tokenHandlers } from './token-source.ts';

/** What a builder may request during a build. */
export interface SessionServices {
  /** Trees by the names under which the frontend requests them. */
  readonly trees: ReadonlyMap<string, FileTree>;
  readonly credentials: CredentialsOf;
  /** Without it, the builder fetches all tokens itself. */
  readonly tokens: TokenSource | undefined;
  /** Secrets by id. */
  readonly secrets: ReadonlyMap<string, Uint8Array>;
  /** SSH agents by id. */
  readonly agents: ReadonlyMap<string, SshAgent>;
  /** Sinks by the position of their exporter. */
  readonly sinks: ReadonlyMap<number, OpenSink>;
  /** Receives the blobs of an image. */
  readonly blobs: BlobSink | undefined;
  /** Receives each password and token that the builder was given. */
  readonly onSecret: (secret: string) => void;
}

/** The session of one build: the connection on which the builder sends its own requests. */
export interface Session {
  readonly id: string;
  /** Status with which the session ended, for any reason. */
  readonly ended: Promise<StatusObject>;
  /** Returns the first failure on the client's side, such as a file that could not be read. */
  readonly failure: () => unknown;
  close(): void;
}

/** Opens a session on the channel. A session that cannot be opened counts as ended. */
export function openSession(client: Client, services: SessionServices): Session {
  const id = randomUUID().replaceAll('-', '');
  const failures: unknown[] = [];
  const handlers = handlersOf(services, error => failures.push(error));
  const call = callBidi(client, Control.method.session, {
    'x-docker-expose-session-uuid': id,
    // The builder caches received files under this key, and takes a file of the same size and time for the same file.
    // If two builds shared a key, one would get the files of the other.
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
  { trees, credentials, tokens, secrets, agents, sinks, blobs, onSecret }: SessionServices,
  onFailure: (error: unknown) => void,
): Handler[] {
  return [
    // The builder drops a session that does not answer this call.
    unaryHandler(Health.method.check, async () => ({
      status: HealthCheckResponse_ServingStatus.SERVING,
    })),
    fileSyncHandler(trees, onFailure),
    credentialsHandler(credentials, onSecret, onFailure),
    ...(tokens ? tokenHandlers(tokens, onSecret, onFailure) : []),
    unaryHandler(Secrets.method.getSecret, async ({ ID }) => {
      const data = secrets.get(ID);
      if (!data)
        throw new GrpcError(status.NOT_FOUND, `The secret '${ID}' is not part of this build`);
      return { data };
    }),
    ...sshHandlers(agents),
    ...(sinks.size > 0 ? [fileSendHandler(sinks, onFailure)] : []),
    ...(blobs ? [blobSendHandler(blobs, onFailure)] : []),
  ];
}
