import {
  connect as connectTcp,
  isIP,
  type LookupFunction,
  type Socket,
  type TcpNetConnectOpts,
} from 'node:net';
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls';
import type { ByteSource, Chunk } from '../../storage/content/byte-source.ts';
import type { SlabPool } from '../../storage/content/index.ts';
import {
  bodyDecoder,
  framingOf,
  HeadReader,
  keepsAlive,
  type ResponseHead,
  WireError,
} from './http1.ts';
import type { ProxyRoute } from './proxy-route.ts';
import { WireBody } from './wire-source.ts';

/** The target and the settings of a connection. */
export interface DialOptions {
  readonly url: URL;
  readonly connectMs: number;
  readonly lookup?: LookupFunction | undefined;
  /** The certificates that an https origin is checked against. */
  readonly trust?: SecureContext | undefined;
  /** The route through a proxy. Default: direct. */
  readonly route?: ProxyRoute | undefined;
}

/** The bytes of a request. */
export interface WireUpload {
  readonly source: ByteSource;
  /** The source has exactly this many bytes. */
  readonly size: number;
}

/** Bytes of the buffer that a connection owns for heads. */
export const headBytes = 16 * 1024;

/** A server sends one, or one for each wait of some seconds. */
const mostInterim = 100;

interface Exchange {
  readonly slabs: SlabPool;
  readonly idleMs: number;
  readonly head: HeadReader;
  /** Number of interim responses so far. */
  interim: number;
  resolve(response: { head: ResponseHead; body: WireBody }): void;
  reject(reason: unknown): void;
}

/** A connection to an upstream that carries one exchange at a time. */
export class WireConnection {
  readonly #socket: Socket;
  readonly #headBuffer: Buffer;
  #exchange: Exchange | null = null;
  #body: WireBody | null = null;
  #upload: ByteSource | null = null;
  #reusable = false;
  #hasResponse = false;
  #dead = false;
  /** Called once when the exchange has ended: true when the connection may be used again. */
  onFree: (reusable: boolean) => void = () => {};

  constructor(socket: Socket, headBuffer: Buffer) {
    this.#socket = socket;
    this.#headBuffer = headBuffer;
  }

  /** True when the first bytes of the response to the current request have arrived. */
  get hasResponse(): boolean {
    return this.#hasResponse;
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** An idle connection does not keep the process alive. */
  set idle(idle: boolean) {
    if (idle) this.#socket.unref();
    else this.#socket.ref();
  }

  /** Returns the buffer for the next bytes; node:net calls this after each read. */
  buffer(): Uint8Array {
    return this.#body?.target() ?? this.#headBuffer;
  }

  /**
   * Sends a request head. Resolves with the final response's head and body; interim responses are
   * skipped (RFC 9110, 15.2), up to 100 of them. Rejects with a {@link WireError}.
   */
  send(
    head: string,
    slabs: SlabPool,
    idleMs: number,
  ): Promise<{ head: ResponseHead; body: WireBody }> {
    const { promise, resolve, reject } = Promise.withResolvers<{
      head: ResponseHead;
      body: WireBody;
    }>();
    this.#hasResponse = false;
    if (this.#dead) {
      reject(new WireError('reset', 'the connection was closed before the request'));
      return promise;
    }
    this.#exchange = { slabs, idleMs, head: new HeadReader(), interim: 0, resolve, reject };
    this.#socket.write(head, 'latin1');
    return promise;
  }

  /**
   * Sends the bytes of a request after its head. Resolves when the socket has taken them all, or when the exchange has
   * ended before: a response that comes early ends the upload, and the connection is closed after it. A failure rejects
   * what {@link send} returned.
   *
   * @param takenMs longest wait until the socket has taken a chunk (ms)
   */
  async upload({ source, size }: WireUpload, takenMs: number): Promise<void> {
    if (this.#exchange === null) return;
    this.#upload = source;
    let left = size;
    let written: Promise<void> = Promise.resolve();
    try {
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
        left -= chunk.bytes.length;
        const before = written;
        written = this.#write(chunk, before, takenMs);
        // It is awaited below, unless the source fails first.
        written.catch(() => {});
        if (left < 0) break;
        // One chunk is on its way while the next one is read.
        await before;
      }
      await written;
      if (left !== 0) throw new WireError('short', `a blob has more or fewer than ${size} bytes`);
      if (this.#upload === source) this.#upload = null;
    } catch (error) {
      // Otherwise a response or the end of the connection has stopped the upload.
      if (this.#upload === source) this.#fail(error);
    }
  }

  /** Writes a chunk after another one. Resolves when its memory is free again. */
  async #write({ bytes, release }: Chunk, before: Promise<void>, takenMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    try {
      await before;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      timer = setTimeout(() => {
        const reason = `the upstream took nothing of an upload for ${takenMs} ms`;
        this.kill(new WireError('timeout-idle', reason));
      }, takenMs);
      this.#socket.write(bytes, error => (error ? reject(error) : resolve()));
      await promise;
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  /** Takes `count` bytes that arrived in the buffer; returns whether to continue reading. */
  take(count: number): boolean {
    if (this.#dead) return false;
    try {
      if (this.#body !== null) return this.#takeBody(this.#body, count);
      return this.#takeHead(this.#headBuffer.subarray(0, count));
    } catch (cause) {
      this.kill(
        cause instanceof WireError ? cause : new WireError('protocol', 'cannot be read', { cause }),
      );
      return false;
    }
  }

  #takeHead(bytes: Buffer): boolean {
    const exchange = this.#exchange;
    if (exchange === null)
      throw new WireError('protocol', 'the upstream sent bytes without a request');
    this.#hasResponse = true;
    for (let at = 0; at < bytes.length; ) {
      const { taken, head } = exchange.head.push(bytes.subarray(at));
      at += taken;
      if (head === undefined) continue;
      if (head.status === 101) throw new WireError('protocol', 'the upstream switched protocols');
      if (head.status < 200) {
        exchange.interim += 1;
        if (exchange.interim <= mostInterim) continue;
        throw new WireError(
          'protocol',
          `the upstream sent more than ${mostInterim} interim responses`,
        );
      }
      return this.#begin(exchange, head, bytes.subarray(at));
    }
    return true;
  }

  #begin(exchange: Exchange, head: ResponseHead, rest: Buffer): boolean {
    const decoder = bodyDecoder(framingOf(head));
    this.#reusable = keepsAlive(head) && !decoder.endsAtClose && this.#upload === null;
    this.#stopUpload();
    const carrier = {
      resume: () => void this.#socket.resume(),
      drop: () => this.#end(),
    };
    const body = new WireBody(exchange.slabs, decoder, carrier, exchange.idleMs);
    this.#exchange = null;
    this.#body = body;
    // Resolve before the first bytes are decoded: if they are malformed, the body fails, not the request.
    exchange.resolve({ head, body });
    const excess = rest.length - body.copy(rest);
    if (body.over) this.#free(excess);
    return true;
  }

  #takeBody(body: WireBody, count: number): boolean {
    const { taken, more } = body.arrived(count);
    if (!body.over) return more;
    this.#free(count - taken);
    return !this.#dead;
  }

  /** Ends a complete exchange. Bytes after the body belong to no request, so such a connection is not used again. */
  #free(excess: number): void {
    this.#body = null;
    const reusable = this.#reusable && excess === 0;
    // TLS delivers decrypted bytes even after a pause: the end may arrive while reading is paused.
    if (reusable) this.#socket.resume();
    else this.#close();
    this.onFree(reusable);
  }

  /** The other side closed the connection cleanly. */
  ended(): void {
    const body = this.#body;
    body?.closed();
    this.kill(new WireError('reset', 'the upstream closed the connection without a response'));
  }

  /** Ends the connection and its exchange. */
  kill(reason: WireError): void {
    this.#fail(reason);
  }

  #fail(reason: unknown): void {
    const exchange = this.#exchange;
    const body = this.#body;
    this.#end();
    exchange?.reject(reason);
    body?.fail(reason instanceof Error ? reason : new Error(String(reason)));
  }

  #stopUpload(): void {
    const upload = this.#upload;
    this.#upload = null;
    upload?.destroy();
  }

  #end(): void {
    if (this.#dead) return;
    this.#close();
    this.#exchange = null;
    this.#body = null;
    this.onFree(false);
  }

  #close(): void {
    this.#dead = true;
    this.#stopUpload();
    this.#socket.destroy();
  }
}

/** Connects; rejects with {@link WireError} `connect`, `tls` or `timeout-connect`. */
export function dial(options: DialOptions): Promise<WireConnection> {
  const { url } = options;
  const secure = url.protocol === 'https:';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const { promise, resolve, reject } = Promise.withResolvers<WireConnection>();
  const headBuffer = Buffer.allocUnsafeSlow(headBytes);
  let connection: WireConnection | undefined;
  const common: TcpNetConnectOpts = {
    host,
    port: Number(url.port) || (secure ? 443 : 80),
    ...(options.lookup === undefined ? {} : { lookup: options.lookup }),
    noDelay: true,
    onread: {
      buffer: () => connection?.buffer() ?? headBuffer,
      callback: (count: number) => connection?.take(count) ?? false,
    },
  };
  const socket: Socket = secure ? dialTls(common, host, options.trust) : connectTcp(common);
  let connected = false;
  const fail = (
    code: 'connect' | 'tls' | 'timeout-connect',
    detail: string,
    cause?: unknown,
  ): void => {
    socket.destroy();
    clearTimeout(timer);
    reject(new WireError(code, `${url.host}: ${detail}`, { cause }));
  };
  const timer = setTimeout(
    () => fail('timeout-connect', `no connection within ${options.connectMs} ms`),
    options.connectMs,
  );
  socket.once('connect', () => {
    connected = true;
  });
  socket.once(secure ? 'secureConnect' : 'connect', () => {
    clearTimeout(timer);
    connection = new WireConnection(socket, headBuffer);
    resolve(connection);
  });
  socket.on('end', () => connection?.ended());
  socket.on('error', cause => {
    if (connection !== undefined) {
      connection.kill(new WireError('reset', `${url.host}: the connection broke`, { cause }));
    } else if (connected) fail('tls', `no secure connection: ${cause.message}`, cause);
    else fail('connect', `no connection: ${cause.message}`, cause);
  });
  socket.on('close', () => {
    if (connection === undefined) fail(connected ? 'tls' : 'connect', 'closed while connecting');
    else connection.kill(new WireError('reset', `${url.host}: the connection was closed`));
  });
  return promise;
}

function dialTls(
  common: TcpNetConnectOpts,
  host: string,
  trust: SecureContext | undefined,
): TLSSocket {
  return connectTls({
    ...common,
    // RFC 6066, 3: a server name is never an address.
    servername: isIP(host) === 0 ? host : '',
    ALPNProtocols: ['http/1.1'],
    ...(trust === undefined ? {} : { secureContext: trust }),
  });
}
