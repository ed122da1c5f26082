import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { createServer, isIP, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  InterceptingCall,
  type Interceptor,
  Metadata,
} from '@grpc/grpc-js';
import { BuildError } from '../errors/build-error.ts';
import { type Address, parseAddress } from './address.ts';

/** Certificates and key as PEM text. */
export interface TlsOptions {
  /** The certificate authority that signed the builder's certificate. */
  readonly ca: string;
  /** Certificate and key of the client, for a builder that requires them. */
  readonly cert?: string;
  readonly key?: string;
  /** Name in the builder's certificate. Default: the host of the address. */
  readonly serverName?: string;
}

export interface ConnectOptions {
  /** TLS for `tcp://`. */
  readonly tls?: TlsOptions;
  /** Detects a builder that hangs during a build. Default: 10 s and 10 s. */
  readonly keepalive?: { readonly timeMs: number; readonly timeoutMs: number };
  /** Returns further headers of a call, such as `traceparent`, with which the builder's spans join a trace. */
  readonly callHeaders?: () => Readonly<Record<string, string>>;
}

/** Two channels to one builder, because the builder accepts pings only while a session is open. */
export interface Transport {
  /** For all calls except builds. */
  readonly control: Client;
  /** For builds; each has a session. */
  readonly builds: Client;
  /** Settles when the builder accepts calls. Rejects with a {@link BuildError}. */
  readonly ready: Promise<void>;
  close(): void;
}

// BuildKit's own message limit.
const messageLimit = 16 * 1024 * 1024;

const commonOptions: ChannelOptions = {
  'grpc.max_receive_message_length': messageLimit,
  'grpc.max_send_message_length': messageLimit,
  'grpc-node.flow_control_window': 4 * 1024 * 1024,
  'grpc.enable_retries': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

/** Opens the channels to a builder. The address and the options must fit together; the caller has checked them. */
export function openTransport(addressText: string, options: ConnectOptions = {}): Transport {
  const address = parseAddress(addressText);
  const { tls, keepalive = { timeMs: 10_000, timeoutMs: 10_000 }, callHeaders } = options;
  const bridge = address.kind === 'docker' ? openDockerBridge(address.path) : undefined;
  const target = bridge ? `unix:${bridge.path}` : targetOf(address);
  const secure = tls ? secureOptions(tls, address) : plainOptions;
  const interceptors = callHeaders ? [addingHeaders(callHeaders)] : [];
  const open = (more: ChannelOptions) =>
    new Client(target, secure.credentials, {
      ...commonOptions,
      ...secure.options,
      ...more,
      interceptors,
    });
  const control = open({});
  // A builder that gets pings without a session closes the connection after a few of them.
  const builds = open({
    'grpc.keepalive_time_ms': keepalive.timeMs,
    'grpc.keepalive_timeout_ms': keepalive.timeoutMs,
  });
  const ready = bridge ? openedBridge(bridge.ready, addressText) : Promise.resolve();
  // Each call gets this rejection too. Without any call, the rejection is not an error.
  ready.catch(() => {});
  return {
    control,
    builds,
    ready,
    close() {
      control.close();
      builds.close();
      bridge?.close();
    },
  };
}

function addingHeaders(headersOf: () => Readonly<Record<string, string>>): Interceptor {
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start(metadata, listener, next) {
        for (const [name, value] of Object.entries(headersOf())) metadata.set(name, value);
        next(metadata, listener);
      },
    });
}

async function openedBridge(ready: Promise<void>, address: string): Promise<void> {
  try {
    await ready;
  } catch (error) {
    throw new BuildError('unavailable', `Cannot connect to ${address}`, { cause: error });
  }
}

function targetOf(address: Address): string {
  if (address.kind !== 'tcp') return `unix:${address.path}`;
  const host = isIP(address.host) === 6 ? `[${address.host}]` : address.host;
  return `dns:${host}:${address.port}`;
}

interface Security {
  readonly credentials: ChannelCredentials;
  readonly options: ChannelOptions;
}

const plainOptions: Security = {
  credentials: credentials.createInsecure(),
  options: { 'grpc.default_authority': 'buildkitd' },
};

function secureOptions({ ca, cert, key, serverName }: TlsOptions, address: Address): Security {
  const host = address.kind === 'tcp' ? address.host : '';
  const pem = (text: string | undefined) => (text === undefined ? null : Buffer.from(text));
  const expected = serverName ?? host;
  // TLS does not allow an IP address as the server name. So this sends a name, and checks the address here.
  const name = isIP(expected) === 0 ? expected : 'buildkitd';
  return {
    credentials: credentials.createSsl(Buffer.from(ca), pem(key), pem(cert), {
      checkServerIdentity: (_name: string, certificate: PeerCertificate) =>
        checkServerIdentity(expected, certificate),
    }),
    options: { 'grpc.ssl_target_name_override': name, 'grpc.default_authority': name },
  };
}

/** A local socket. Each connection to it becomes a connection to the builder inside a Docker engine. */
interface DockerBridge {
  readonly path: string;
  /** Settles when the socket accepts connections. Rejects with the error of the socket. */
  readonly ready: Promise<void>;
  close(): void;
}

/**
 * Opens the bridge to the engine at `dockerSocket`. The engine connects the caller to its builder after `POST /grpc`
 * with `Upgrade: h2c`; gRPC clients cannot send that request.
 */
function openDockerBridge(dockerSocket: string): DockerBridge {
  // A private directory, because access to this socket gives the same rights as access to the engine.
  const directory = mkdtempSync(join(tmpdir(), 'buildkit-bridge-'));
  const path = join(directory, 'grpc.sock');
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer({ allowHalfOpen: true }, near => {
    keep(near);
    near.pause();
    const upgrade = request({
      socketPath: dockerSocket,
      method: 'POST',
      path: '/grpc',
      headers: { host: 'docker', connection: 'Upgrade', upgrade: 'h2c' },
    });
    upgrade.on('upgrade', (_response, far: Socket, head) => {
      keep(far);
      if (head.length > 0) near.write(head);
      near.pipe(far).pipe(near);
      near.on('close', () => far.destroy());
      far.on('close', () => near.destroy());
    });
    upgrade.on('response', () => near.destroy());
    upgrade.on('error', () => near.destroy());
    upgrade.end();
  });
  const ready = new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.listen(path, resolve);
  });
  // An idle bridge does not keep the process alive. Its connections do, like any connection.
  server.unref();
  return {
    path,
    ready,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

type Method = { readonly name: string; readonly parent: { readonly typeName: string } };

/** Returns the path of a method on the wire, such as `/moby.buildkit.v1.Control/Solve`. */
export function pathOf(method: Method): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Sends one request for one response. Rejects with grpc-js's `ServiceError`, or with the reason of the signal. */
export function callUnary<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  signal?: AbortSignal,
): Promise<MessageShape<O>> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => call.cancel();
    const call = client.makeUnaryRequest(
      pathOf(method),
      encoder(method.input),
      decoder(method.output),
      create(method.input, request),
      (error, response) => {
        signal?.removeEventListener('abort', onAbort);
        if (response !== undefined && !error) resolve(response);
        else reject(signal?.aborted ? signal.reason : error);
      },
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Sends one request for a stream of responses. The stream emits `error` with a `ServiceError`; `cancel` ends it. */
export function callServerStream<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodServerStreaming<I, O>,
  request: MessageInitShape<I>,
): ClientReadableStream<MessageShape<O>> {
  return client.makeServerStreamRequest(
    pathOf(method),
    encoder(method.input),
    decoder(method.output),
    create(method.input, request),
  );
}

/** Opens a stream of messages in both directions. Each value of the metadata is sent as a separate header. */
export function callBidi<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodBiDiStreaming<I, O>,
  headers: Readonly<Record<string, string | readonly string[]>>,
): ClientDuplexStream<MessageShape<I>, MessageShape<O>> {
  const metadata = new Metadata();
  for (const [name, values] of Object.entries(headers)) {
    for (const value of [values].flat()) metadata.add(name, value);
  }
  return client.makeBidiStreamRequest(
    pathOf(method),
    encoder(method.input),
    decoder(method.output),
    metadata,
  );
}

function encoder<T extends DescMessage>(schema: T): (message: MessageShape<T>) => Buffer {
  return message => {
    const bytes = toBinary(schema, message);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
}

function decoder<T extends DescMessage>(schema: T): (bytes: Buffer) => MessageShape<T> {
  return bytes => fromBinary(schema, bytes);
}
