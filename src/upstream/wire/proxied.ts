import { once } from 'node:events';
import { isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { ProxyRoute } from '../transport/proxy-route.ts';
import { connectThrough } from '../transport/proxy-tunnel.ts';
import { type DialOptions, headBytes, WireConnection } from './connection.ts';
import { WireError } from './wire-error.ts';

/**
 * Connects through a proxy. Bytes are copied once more than on a direct connection: node:net reads into a caller's
 * buffers only on sockets that it creates itself. Rejects with a `Fault` for the proxy, with {@link WireError} `tls`
 * for the target.
 */
export async function dialThrough(
  options: DialOptions,
  route: ProxyRoute,
): Promise<WireConnection> {
  const raw = await connectThrough(route, options.connectMs);
  const { url } = options;
  const socket = url.protocol === 'https:' ? await secured(raw, options) : raw;
  const connection = new WireConnection(socket, Buffer.allocUnsafeSlow(headBytes));
  socket.on('data', bytes => {
    if (!feed(connection, bytes)) socket.pause();
  });
  socket.on('end', () => connection.ended());
  const broke = (cause?: unknown) =>
    connection.kill(new WireError('reset', `${url.host}: the connection broke`, { cause }));
  socket.on('error', broke).on('close', () => broke());
  return connection;
}

/** Delivers bytes as if they had been read into the connection's buffers; returns whether to continue reading. */
function feed(connection: WireConnection, bytes: Buffer): boolean {
  let more = true;
  for (let at = 0; at < bytes.length; ) {
    const room = connection.buffer();
    const part = bytes.subarray(at, at + room.length);
    room.set(part);
    more = connection.take(part.length);
    if (connection.dead) return false;
    at += part.length;
  }
  return more;
}

async function secured(raw: Socket, { url, trust, connectMs }: DialOptions): Promise<TLSSocket> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const socket = connectTls({
    socket: raw,
    host,
    servername: isIP(host) === 0 ? host : '',
    ALPNProtocols: ['http/1.1'],
    ...(trust === undefined ? {} : { secureContext: trust }),
  });
  const onClose = () => socket.destroy(new Error('closed while connecting'));
  const stop = setTimeout(() => socket.destroy(new Error('no TLS in time')), connectMs);
  raw.once('close', onClose);
  try {
    await once(socket, 'secureConnect');
    return socket;
  } catch (cause) {
    socket.destroy();
    raw.destroy();
    const why = cause instanceof Error ? cause.message : '';
    throw new WireError('tls', `${url.host}: no secure connection: ${why}`, { cause });
  } finally {
    clearTimeout(stop);
    raw.off('close', onClose);
  }
}
