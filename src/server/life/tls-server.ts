import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Server, ServerOptions } from 'node:http';
import { createServer } from 'node:https';
import { createSecureContext, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { ConfigError } from '../config/index.ts';
import type { TlsSettings } from '../config/read/index.ts';

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

/** The content of the TLS files at one time. */
interface Certificates {
  readonly options: SecureContextOptions;
  /** Changes with the content of the files. */
  readonly fingerprint: string;
  /** When the certificate of the server expires, in ms since 1970. */
  readonly endsAt: number;
}

const lookMs = 5000;
const noticeMs = 7 * 86_400_000;

/** Reads certificate, key and authority. Throws for unreadable files, and for files that do not belong together. */
export function readCertificates(settings: TlsSettings): Certificates {
  return certificatesOf(filesOf(settings).map(path => readFileSync(path)));
}

function filesOf({ certificate, key, clientCa }: TlsSettings): string[] {
  return [certificate, key, ...(clientCa === undefined ? [] : [clientCa])];
}

function certificatesOf(files: readonly Buffer[]): Certificates {
  const [cert = Buffer.alloc(0), key, ca] = files;
  const options: SecureContextOptions = {
    cert,
    key,
    minVersion: 'TLSv1.2',
    ...(ca ? { ca } : {}),
  };
  createSecureContext(options);
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file.length} `).update(file);
  const endsAt = Date.parse(new X509Certificate(cert).validTo);
  return { options, fingerprint: hash.digest('hex'), endsAt };
}

/**
 * Reads the files every five seconds and passes on changed content. A file watcher would miss replaced links, as
 * Kubernetes uses them. Unusable files are logged once, and the previous content stays in use. A certificate that expires
 * within a week is logged once as well. Returns a function that stops this.
 */
function watchCertificates(
  settings: TlsSettings,
  first: Certificates,
  log: Logger,
  use: (options: SecureContextOptions) => void,
): () => void {
  const { certificate } = settings;
  let used = first;
  let reported = '';
  let noticed = '';

  const look = async (): Promise<void> => {
    const found = certificatesOf(await Promise.all(filesOf(settings).map(path => readFile(path))));
    reported = '';
    if (found.fingerprint === used.fingerprint) return;
    use(found.options);
    used = found;
    log.info({ certificate, ends: new Date(found.endsAt) }, 'the new TLS certificate is in use');
  };
  const report = (error: unknown): void => {
    const reason = error instanceof Error ? error.message : String(error);
    if (reason === reported) return;
    reported = reason;
    log.error(
      { files: filesOf(settings), reason },
      'cannot use the changed TLS files: the previous certificate stays in use',
    );
  };
  const notice = (): void => {
    const { endsAt, fingerprint } = used;
    if (fingerprint === noticed || endsAt - Date.now() > noticeMs) return;
    noticed = fingerprint;
    log.warn({ certificate, ends: new Date(endsAt) }, 'the TLS certificate expires soon: renew it');
  };

  notice();
  const looks = new SingleFlight<void>();
  const lookAndReport = () => look().catch(report).then(notice);
  const timer = setInterval(() => void looks.run(lookAndReport), lookMs).unref();
  return () => clearInterval(timer);
}
