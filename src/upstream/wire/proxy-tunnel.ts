import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Fault } from '../../foundation/fault.ts';
import { HeadReader, type ResponseHead } from './http1.ts';
import type { HttpProxy, ProxyRoute } from './proxy-route.ts';

/**
 * Connects to a proxy and, for a tunnel, makes it connect to the target: bytes written to the socket then go to the
 * target. Throws a {@link Fault} that names the proxy; `timeoutMs` applies to each of the two steps. Source: RFC 9110,
 * section 9.3.6.
 */
export async function connectThrough(route: ProxyRoute, timeoutMs: number): Promise<Socket> {
  const { proxy } = route;
  const socket = await dialProxy(proxy, timeoutMs);
  if (route.kind === 'forward') return socket;
  const stop = setTimeout(() => socket.destroy(new Error('timeout')), timeoutMs);
  try {
    const authorization = proxy.authorization;
    const lines = [
      `CONNECT ${route.target} HTTP/1.1`,
      `host: ${route.target}`,
      ...(authorization === undefined ? [] : [`proxy-authorization: ${authorization}`]),
    ];
    socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
    const { status } = await readHead(socket);
    if (status < 200 || status > 299) throw refused(proxy, status, route.target);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error instanceof Fault ? error : broken(proxy, error, `asked for ${route.target}`);
  } finally {
    clearTimeout(stop);
  }
}

/** Returns the fault for a proxy that responds instead of the target. */
export function refused(proxy: HttpProxy, status: number, target: string): Fault {
  const what =
    status === 407
      ? 'requires a login: the operator sets its name and password in HTTPS_PROXY and HTTP_PROXY'
      : `answered ${status} to a connection to ${target}: it cannot reach that host, or its rules forbid it. Without upstream.proxyNames its rules see an IP address`;
  return new Fault('upstream', `The proxy ${proxy.url.host} ${what}`, { phase: 'upstream' });
}

async function dialProxy(proxy: HttpProxy, timeoutMs: number): Promise<Socket> {
  const { url } = proxy;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const isSecure = url.protocol === 'https:';
  const port = Number(url.port) || (isSecure ? 443 : 80);
  const socket = isSecure
    ? connectTls({
        host,
        port,
        ALPNProtocols: ['http/1.1'],
        servername: isIP(host) === 0 ? host : '',
      })
    : connectTcp({ host, port });
  const stop = setTimeout(() => socket.destroy(new Error('timeout')), timeoutMs);
  try {
    await once(socket, isSecure ? 'secureConnect' : 'connect');
    // The user of the socket sees later errors; until then nothing listens.
    socket.on('error', () => {});
    return socket.setNoDelay(true);
  } catch (error) {
    socket.destroy();
    throw broken(proxy, error, 'connecting');
  } finally {
    clearTimeout(stop);
  }
}

/** Reads the head of the response. Bytes after it stay in the socket until the next read. */
function readHead(socket: Socket): Promise<ResponseHead> {
  const { promise, resolve, reject } = Promise.withResolvers<ResponseHead>();
  const reader = new HeadReader();
  const onData = (bytes: Buffer) => {
    try {
      const { taken, head } = reader.push(bytes);
      if (head === undefined) return;
      socket.off('data', onData).off('close', onClose).pause();
      if (taken < bytes.length) socket.unshift(bytes.subarray(taken));
      resolve(head);
    } catch (error) {
      reject(error);
    }
  };
  const onClose = () => reject(socket.errored ?? new Error('it closed the connection'));
  socket.on('data', onData).once('close', onClose);
  return promise;
}

function broken({ url }: HttpProxy, error: unknown, what: string): Fault {
  const isLate = error instanceof Error && error.message === 'timeout';
  const code = error instanceof Error && 'code' in error ? ` (${error.code})` : '';
  return new Fault(
    isLate ? 'upstream-timeout' : 'upstream',
    `The proxy ${url.host} ${isLate ? 'did not answer in time' : `could not be used${code}`}, ${what}: ask the operator to check HTTPS_PROXY and HTTP_PROXY`,
    { phase: 'upstream', cause: error },
  );
}
