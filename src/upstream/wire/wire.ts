import type { LookupFunction } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { WireConnection, WireUpload } from './connection.ts';
import { type ResponseHead, requestHead, WireError } from './http1.ts';
import type { WirePool } from './pool.ts';
import type { ProxyRoute } from './proxy-route.ts';
import type { WireBody } from './wire-source.ts';

export interface WireRequest {
  /** `http:` or `https:`; its user information is not sent. */
  url: URL;
  /** Makes the request a PUT of these bytes, which are sent without a copy. The caller destroys the source in the end. */
  upload?: WireUpload | undefined;
  /** Must not contain `host`, `connection` and the framing fields, which are written here. */
  headers: Readonly<Record<string, string>>;
  /** Ends the exchange, even while the body is being read. */
  signal?: AbortSignal | undefined;
  /**
   * Timeouts (ms): until connected (DNS and TLS included); until the upstream has taken a chunk of an upload, and from the
   * last byte of the request to the head of the response; between bytes of the body while a reader waits.
   */
  timeouts: { connectMs: number; headersMs: number; idleMs: number };
  /**
   * DNS lookup with the address guard; not called for literal addresses. Requests share connections only if they use
   * the same function.
   */
  lookup?: LookupFunction | undefined;
  /**
   * The certificates that an https origin is checked against. Default: the built-in roots. Creating a context takes
   * milliseconds: keep it.
   */
  trust?: SecureContext | undefined;
  /** The route through a proxy. Default: direct. */
  route?: ProxyRoute | undefined;
}

export interface WireResponse {
  status: number;
  /** Names in lower case; repeated fields joined by `, `. */
  headers: ReadonlyMap<string, string>;
  /** The caller must read it to its end or destroy it, even if it is empty or belongs to an error. */
  body: ByteSource;
  /** Bytes; undefined when the upstream did not specify them. */
  contentLength: number | undefined;
}

/**
 * Sends a GET or a PUT and returns the response once its head has arrived, whatever its status. The body uses at most 2 MiB of
 * buffers (wire-source.ts). Rejects with a {@link WireError}. If a kept connection dies before the first byte of a
 * response, a GET is sent once more on a new one, as RFC 9112, 9.3.1 allows. The bytes of a PUT are gone by then: it rejects.
 */
export async function openWire(request: WireRequest, pool: WirePool): Promise<WireResponse> {
  if (request.url.protocol !== 'http:' && request.url.protocol !== 'https:') {
    throw new WireError('protocol', `cannot fetch from a ${request.url.protocol} URL`);
  }
  const { url, headers, route, upload } = request;
  const head = requestHead(url, headers, route, upload?.size);
  for (let fresh = false; ; fresh = true) {
    const { connection, reused } = await connect(request, pool, fresh);
    try {
      return await exchange(connection, head, request, pool);
    } catch (error) {
      const stale = error instanceof WireError && error.code === 'reset' && !connection.hasResponse;
      if (!reused || !stale || upload) throw error;
    }
  }
}

/** Takes a connection from the pool. If the request was aborted in the meantime, closes the connection. */
async function connect(
  { url, timeouts, lookup, trust, route, signal }: WireRequest,
  pool: WirePool,
  fresh: boolean,
): Promise<{ connection: WireConnection; reused: boolean }> {
  if (signal?.aborted) throw aborted(signal);
  const turnMs = timeouts.headersMs;
  const taking = pool.take(
    { url, connectMs: timeouts.connectMs, turnMs, lookup, trust, route, signal },
    fresh,
  );
  if (signal === undefined) return taking;
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(aborted(signal));
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([taking, promise]);
  } catch (error) {
    if (!signal.aborted) throw error;
    taking.then(({ connection }) => connection.kill(aborted(signal))).catch(() => {});
    throw aborted(signal);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

async function exchange(
  connection: WireConnection,
  head: string,
  { url, timeouts, signal, upload }: WireRequest,
  pool: WirePool,
): Promise<WireResponse> {
  if (signal?.aborted) {
    connection.kill(aborted(signal));
    throw aborted(signal);
  }
  const { headersMs, idleMs } = timeouts;
  const late = () =>
    connection.kill(
      new WireError('timeout-headers', `${url.host}: no response within ${headersMs} ms`),
    );
  let timer: NodeJS.Timeout | undefined;
  const abort = (): void => connection.kill(aborted(signal));
  const release = connection.onFree;
  // The connection may serve another request as soon as it is free, so the signal must release it first.
  connection.onFree = reusable => {
    signal?.removeEventListener('abort', abort);
    release(reusable);
  };
  signal?.addEventListener('abort', abort, { once: true });
  try {
    const answered = connection.send(head, pool.slabs, idleMs);
    if (upload) await Promise.race([answered, connection.upload(upload, headersMs)]);
    timer = setTimeout(late, headersMs);
    return response(await answered);
  } finally {
    clearTimeout(timer);
  }
}

function response({ head, body }: { head: ResponseHead; body: WireBody }): WireResponse {
  const length = head.headers.get('content-length');
  return {
    status: head.status,
    headers: head.headers,
    body,
    contentLength: length === undefined ? undefined : Number.parseInt(length, 10),
  };
}

function aborted(signal: AbortSignal | undefined): WireError {
  return new WireError('aborted', 'the request was given up', { cause: signal?.reason });
}
