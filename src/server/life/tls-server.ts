import type { Server, ServerOptions } from 'node:http';
import { createServer } from 'node:https';
import type { TLSSocket } from 'node:tls';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { ConfigError } from '../config/index.ts';
import type { TlsSettings } from '../config/read/index.ts';
import { type Certificates, readCertificates, watchCertificates } from './certificates.ts';

/**
 * Creates a server for HTTP/1.1 over TLS 1.2 or 1.3. Each connection uses the current certificates. A handshake takes at
 * most `headersTimeout`. A failed handshake is not logged, because everybody can cause one. Throws {@link ConfigError}.
 */
export function createTlsServer(
  settings: TlsSettings,
  options: ServerOptions,
  log: Logger,
): { readonly server: Server; stop(): void } {
  const { clientCa, isClientCertificateRequired } = settings;
  const first = firstCertificates(settings);
  const server = createServer({
    ...options,
    ...first.options,
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: options.headersTimeout,
    requestCert: clientCa !== undefined,
    rejectUnauthorized: isClientCertificateRequired,
  });
  if (clientCa !== undefined && !isClientCertificateRequired) {
    server.on('secureConnection', socket => {
      if (!socket.authorized && hasCertificate(socket)) socket.destroy();
    });
  }
  const stop = watchCertificates(settings, first, log, now => server.setSecureContext(now));
  return { server, stop };
}

function hasCertificate(socket: TLSSocket): boolean {
  return socket.getPeerX509Certificate() !== undefined;
}

function firstCertificates(settings: TlsSettings): Certificates {
  try {
    return readCertificates(settings);
  } catch (error) {
    const { certificate, key, clientCa } = settings;
    const files = [certificate, key, ...(clientCa === undefined ? [] : [clientCa])].join(', ');
    const why = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`The TLS files cannot be used (${files}): ${why}`, { cause: error });
  }
}
