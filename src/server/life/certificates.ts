import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { TlsSettings } from '../config/read/index.ts';

/** The content of the TLS files at one time. */
export interface Certificates {
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
export function watchCertificates(
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
