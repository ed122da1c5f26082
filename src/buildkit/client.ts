import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { whyUnreadable } from '../foundation/fault.ts';
import { parseAddress } from './grpc/address.ts';
import type { ConnectOptions, TlsOptions, Transport } from './grpc/channel.ts';
import type {
  BuilderInfo,
  BuilderWorker,
  CallOptions,
  PruneOptions,
  UsageRecord,
} from './grpc/control-calls.ts';

type ControlCalls = typeof import('./grpc/control-calls.ts');

/**
 * A connection to one builder. All methods reject with a `BuildError`: `unavailable` if the builder cannot be reached,
 * `timeout` after `timeoutMs`, `cancelled` by the signal, `other` if the builder refuses.
 */
export class BuildkitClient {
  readonly address: string;
  readonly #options: ConnectOptions;
  readonly #closing = new AbortController();
  #opening: Promise<Transport> | undefined;
  #transport: Transport | undefined;

  constructor(address: string, options: ConnectOptions) {
    checkOptions(address, options);
    this.address = address;
    this.#options = options;
  }

  /** Returns the builder's name and version. */
  info(options: CallOptions = {}): Promise<BuilderInfo> {
    return this.#ask(({ info }) => info(this, options));
  }

  /** Returns the workers of the builder and their platforms. */
  listWorkers(options: CallOptions = {}): Promise<BuilderWorker[]> {
    return this.#ask(({ listWorkers }) => listWorkers(this, options));
  }

  /** Returns the records on the builder's disk that match one of the filters. Without filters, returns all records. */
  diskUsage(filter: readonly string[] = [], options: CallOptions = {}): Promise<UsageRecord[]> {
    return this.#ask(({ diskUsage }) => diskUsage(this, filter, options));
  }

  /** Removes cache records that are not in use, and returns the removed ones. */
  prune(what: PruneOptions = {}, options: CallOptions = {}): Promise<UsageRecord[]> {
    return this.#ask(({ prune }) => prune(this, what, options));
  }

  /** Opens the connection at the first call. For {@link build} and the calls of this class only. */
  open(): Promise<Transport> {
    this.#opening ??= this.#open();
    return this.#opening;
  }

  /** Aborted by {@link close}. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** Closes all connections and cancels calls and builds in progress. */
  close(): void {
    this.#closing.abort();
    this.#transport?.close();
  }

  // Loading gRPC takes 150 modules and 60 ms. A process that never calls a builder does not load it.
  async #open(): Promise<Transport> {
    const { openTransport } = await import('./grpc/channel.ts');
    const transport = openTransport(this.address, this.#options);
    this.#transport = transport;
    if (this.closed.aborted) transport.close();
    return transport;
  }

  async #ask<T>(call: (calls: ControlCalls) => Promise<T>): Promise<T> {
    return call(await import('./grpc/control-calls.ts'));
  }
}

/**
 * Returns a client of the builder at `unix:///path`, `tcp://host:port` or `docker+unix:///path` (the builder inside the
 * Docker engine at that socket). Connects at the first call. Throws a `TypeError` for any other address or for options
 * that do not fit it, and OpenSSL's error for an invalid certificate or key.
 */
export function connect(address: string, options: ConnectOptions = {}): BuildkitClient {
  return new BuildkitClient(address, options);
}

function checkOptions(address: string, { tls }: ConnectOptions): void {
  const { kind } = parseAddress(address);
  if (!tls) return;
  if (kind !== 'tcp') throw new TypeError('TLS requires an address of the form tcp://host:port');
  createSecureContext({ ca: tls.ca, cert: tls.cert, key: tls.key });
}

/** Paths of PEM files, and the name in the builder's certificate. */
export interface TlsFiles {
  readonly ca: string;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
  readonly serverName?: string | undefined;
}

/**
 * Reads the files for the connection to a builder. Throws a `TypeError` that names the file and its fault, and that
 * never contains a part of a file.
 */
export function readTlsFiles({ ca, certificate, key, serverName }: TlsFiles): TlsOptions {
  if ((certificate === undefined) !== (key === undefined)) {
    throw new TypeError("'certificate' and 'key' go together");
  }
  const authority = readText('ca', ca);
  parseCertificate('ca', ca, authority);
  const name = serverName === undefined ? {} : { serverName };
  if (certificate === undefined || key === undefined) return { ca: authority, ...name };
  const [cert, privateKey] = [readText('certificate', certificate), readText('key', key)];
  const parsed = parseCertificate('certificate', certificate, cert);
  if (!parsed.checkPrivateKey(parseKey(key, privateKey))) {
    throw new TypeError(`'key': the file ${key} does not belong to the certificate ${certificate}`);
  }
  return { ca: authority, cert, key: privateKey, ...name };
}

function readText(what: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new TypeError(`'${what}': the file ${path} cannot be read: ${whyUnreadable(error)}`);
  }
}

function parseCertificate(what: string, path: string, text: string): X509Certificate {
  try {
    return new X509Certificate(text);
  } catch {
    throw new TypeError(`'${what}': the file ${path} is not a certificate in PEM form`);
  }
}

function parseKey(path: string, text: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch {
    throw new TypeError(
      `'key': the file ${path} is not a private key in PEM form without a password`,
    );
  }
}
