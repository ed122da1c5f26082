import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from '../../foundation/telemetry.ts';
import type { TlsSettings } from '../config/read/tls.ts';

/** What the files of the configuration hold at one time. */
export interface Certificates {
  readonly options: SecureContextOptions;
  /** Differs where the content of a file differs. */
  readonly fingerprint: string;
  /** When the certificate of the server ends, in ms since 1970. */
  readonly endsAt: number;
}

const lookMs = 5000;
const noticeMs = 7 * 86_400_000;

/** Reads certificate, key and authority. Throws where a file cannot be read, or they do not belong together. */
export function readCertificates(settings: TlsSettings): Certificates {
  return certificatesOf(filesOf(settings).map(path => readFileSync(path)));
}

function filesOf({ certificate, key, clientCa }: TlsSettings): string[] {
  return [certificate, key, ...(clientCa === undefined ? [] : [clientCa])];
}

function certificatesOf(files: readonly Buffer[]): Certificates {
  const [cert = Buffer.alloc(0), key, ca] = files;
  const options: SecureContextOptions = {
    ...{ cert, key, minVersion: 'TLSv1.2' },
    ...(ca ? { ca } : {}),
  };
  createSecureContext(options);
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${file.length} `).update(file);
  const endsAt = Date.parse(new X509Certificate(cert).validTo);
  return { options, fingerprint: hash.digest('hex'), endsAt };
}

/**
 * Looks at the files every five seconds, and hands over their content where it has changed: links that
 * are exchanged, as Kubernetes does, make no event that a watcher would see. Files that cannot be used
 * are reported once, and what was used so far goes on; so is a certificate that ends within a week.
 * Returns what stops it.
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
      'the TLS files cannot be used as they are now: the previous certificate stays in use',
    );
  };
  const notice = (): void => {
    const { endsAt, fingerprint } = used;
    if (fingerprint === noticed || endsAt - Date.now() > noticeMs) return;
    noticed = fingerprint;
    log.warn({ certificate, ends: new Date(endsAt) }, 'the TLS certificate ends soon: renew it');
  };

  let isLooking = false;
  notice();
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    look()
      .catch(report)
      .then(notice)
      .finally(() => {
        isLooking = false;
      });
  }, lookMs).unref();
  return () => clearInterval(timer);
}
