import { randomUUID } from 'node:crypto';
import { Duplex } from 'node:stream';
import { create } from '@bufbuild/protobuf';
import { type Client, type ClientDuplexStream, type StatusObject, status } from '@grpc/grpc-js';
import type { BuildkitClient } from './client.ts';
import { BuildError } from './errors/build-error.ts';
import { awayText, failureOfBuild, isCutOff, isServiceError, Stop } from './errors/call-error.ts';
import type { FileTree } from './files/file-tree.ts';
import { Health, HealthCheckResponse_ServingStatus } from './gen/grpc/health/v1/health_pb.js';
import { Secrets } from './gen/moby/buildkit/secrets/v1/secrets_pb.js';
import {
  type BytesMessage,
  BytesMessageSchema,
  Control,
} from './gen/moby/buildkit/v1/control_pb.js';
import { callBidi, callUnary } from './grpc/channel.ts';
import { GrpcError, type Handler, serveGrpc, unaryHandler } from './grpc/grpc-server.ts';
import type { BuildOptions, BuildRun } from './options.ts';
import { Journal, type Warning } from './progress/progress.ts';
import { SecretMask } from './progress/secret-mask.ts';
import {
  type CredentialsOf,
  credentialsHandler,
  type TokenSource,
  tokenHandlers,
} from './session/auth-provider.ts';
import {
  type BlobSink,
  blobSendHandler,
  fileSendHandler,
  type OpenSink,
} from './session/exporter-sinks.ts';
import { fileSyncHandler } from './session/file-sync.ts';
import { keyAgent, type SshAgent, socketAgent, sshHandlers } from './session/ssh/ssh-agent.ts';
import { solveInput } from './solve-request.ts';
import { shownNames, watchStatus } from './status-watch.ts';

/** Implements `build`. It has its own file because it loads gRPC. */
export async function runBuild(
  client: BuildkitClient,
  options: BuildOptions,
  { signal, timeoutMs, onProgress }: BuildRun,
): Promise<BuildResult> {
  const ref = randomUUID().replaceAll('-', '');
  const { request, trees } = solveInput(options, ref);
  const mask = new SecretMask();
  const secrets = secretsOf(options);
  for (const secret of secrets.values()) mask.add(secret);
  const journal = new Journal();
  const names = shownNames(options.replacedImages);
  const { builds, ready } = await client.open();
  await ready;
  using stop = new Stop([signal, client.closed], timeoutMs, {
    cancelled: 'The build was cancelled',
    timeout: `The build took longer than ${(timeoutMs ?? 0) / 1000} s`,
  });
  stop.signal.throwIfAborted();
  const session = openSession(builds, {
    trees,
    secrets,
    agents: agentsOf(options),
    credentials: options.credentials ?? (async () => undefined),
    tokens: options.tokens,
    sinks: sinksOf(options),
    blobs: blobSinkOf(options),
    onSecret: secret => mask.add(secret),
  });
  // A builder that lost the session continues for a long time until it needs the session.
  void session.ended.then(end => stop.because(lostSession(end, client.address)));
  const watch = watchStatus(builds, ref, given => {
    const progress = names.progress(given);
    journal.add(progress);
    try {
      onProgress?.(progress);
    } catch (error) {
      stop.because(error);
    }
  });
  try {
    const solveRequest = { ...request, Session: session.id };
    const response = await callUnary(builds, Control.method.solve, solveRequest, stop.signal);
    await watch.drained();
    return resultOf(response.ExporterResponse, journal);
  } catch (error) {
    await watch.drained();
    if (!isServiceError(error)) throw error;
    error.details = names.text(error.details);
    const explained = failureOfBuild(error, client.address, journal, mask);
    const failure = session.failure();
    const isOurs = failure !== undefined && !['exec', 'unavailable'].includes(explained.kind);
    throw isOurs ? failureOfSession(failure, mask) : explained;
  } finally {
    session.close();
  }
}

function secretsOf({ secrets = {} }: BuildOptions): Map<string, Uint8Array> {
  return new Map(Object.entries(secrets).map(([id, secret]) => [id, Buffer.from(secret)]));
}

function agentsOf({ ssh = {} }: BuildOptions): Map<string, SshAgent> {
  const agents = Object.entries(ssh).map(
    ([id, source]) =>
      [id, 'keys' in source ? keyAgent(source.keys) : socketAgent(source.socket)] as const,
  );
  return new Map(agents);
}

function sinksOf({ exporters = [] }: BuildOptions): Map<number, OpenSink> {
  return new Map(
    exporters.flatMap((exporter, index) => ('sink' in exporter ? [[index, exporter.sink]] : [])),
  );
}

function blobSinkOf({ exporters = [] }: BuildOptions): BlobSink | undefined {
  return exporters.find(exporter => 'blobs' in exporter)?.blobs;
}

function lostSession(end: StatusObject, address: string): BuildError {
  const isAway = end.code === status.UNAVAILABLE || isCutOff(end);
  if (isAway) return new BuildError('unavailable', awayText(address, end));
  const why = end.details === '' ? '' : `: ${end.details}`;
  return new BuildError(
    'session',
    `The builder at ${address} ended the session of the build${why}`,
  );
}

function failureOfSession(failure: unknown, mask: SecretMask): BuildError {
  const message = failure instanceof Error ? failure.message : String(failure);
  return new BuildError('session', `Cannot answer the builder: ${mask.apply(message)}`, {
    cause: failure,
  });
}

/** What a builder may request during a build. */
interface SessionServices {
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
interface Session {
  readonly id: string;
  /** Status with which the session ended, for any reason. */
  readonly ended: Promise<StatusObject>;
  /** Returns the first failure on the client's side, such as a file that could not be read. */
  readonly failure: () => unknown;
  close(): void;
}

/** Opens a session on the channel. A session that cannot be opened counts as ended. */
function openSession(client: Client, services: SessionServices): Session {
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

// Well below BuildKit's message limit. A write never buffers more than this.
const pieceBytes = 1024 * 1024;

/** A connection inside a call with a byte stream in each direction. BuildKit calls it a session. */
class Tunnel extends Duplex {
  readonly #call: ClientDuplexStream<BytesMessage, BytesMessage>;
  /** Status with which the call ended. */
  readonly status: Promise<StatusObject>;

  constructor(call: ClientDuplexStream<BytesMessage, BytesMessage>) {
    super({ allowHalfOpen: false });
    this.#call = call;
    this.status = new Promise(resolve => call.on('status', resolve));
    call.on('data', (message: BytesMessage) => {
      if (message.data.length > 0 && !this.push(message.data)) call.pause();
    });
    call.on('end', () => this.push(null));
    call.on('error', error => this.destroy(error));
    // The status has the reason, and the tunnel's owner waits for the status.
    this.on('error', () => {});
  }

  override _read(): void {
    this.#call.resume();
  }

  override _write(
    chunk: Buffer,
    _encoding: BufferEncoding,
    callback: (error?: Error | null) => void,
  ): void {
    this.#send(chunk, callback);
  }

  override _writev(
    chunks: { chunk: Buffer; encoding: BufferEncoding }[],
    callback: (error?: Error | null) => void,
  ): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)), callback);
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#call.end();
    callback();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#call.cancel();
    callback(error);
  }

  #send(bytes: Buffer, callback: (error?: Error | null) => void): void {
    const rest = bytes.subarray(pieceBytes);
    const message = create(BytesMessageSchema, { data: bytes.subarray(0, pieceBytes) });
    this.#call.write(message, (error?: Error | null) => {
      if (error || rest.length === 0) callback(error ?? null);
      else this.#send(rest, callback);
    });
  }
}

/** The result of a build. With several exporters, the result of the last one that reported it. */
export interface BuildResult {
  /** Digest of the image's manifest or index. Undefined if the build only made a `tar`. */
  readonly digest: string | undefined;
  /** Digest of the image's config. Undefined for an index. */
  readonly configDigest: string | undefined;
  readonly descriptor: ImageDescriptor | undefined;
  /** Names of the image. */
  readonly names: readonly string[];
  readonly warnings: readonly Warning[];
  /** Number of steps of the Dockerfile, and how many of them came from the cache. */
  readonly steps: { readonly total: number; readonly cached: number };
  /** Everything that the exporters reported, by BuildKit's names. */
  readonly response: Readonly<Record<string, string>>;
}

/** Descriptor of an image. Source: OCI image specification, descriptor.md. */
export interface ImageDescriptor {
  readonly mediaType: string;
  readonly digest: string;
  /** Bytes of the manifest or index. */
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
}

export function resultOf(
  response: Readonly<Record<string, string>>,
  journal: Journal,
): BuildResult {
  return {
    digest: response['containerimage.digest'],
    configDigest: response['containerimage.config.digest'],
    descriptor: descriptorIn(response['containerimage.descriptor']),
    names: response['image.name']?.split(',') ?? [],
    warnings: journal.warnings,
    steps: journal.steps,
    response,
  };
}

function descriptorIn(base64: string | undefined): ImageDescriptor | undefined {
  if (base64 === undefined) return undefined;
  return JSON.parse(Buffer.from(base64, 'base64').toString()) as ImageDescriptor;
}
