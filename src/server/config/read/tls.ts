import { ConfigError } from '../config-error.ts';
import type { Config } from '../settings-schema.ts';

/** TLS settings of the server. */
export interface TlsSettings {
  /** `address:port` */
  readonly listen: string;
  /** Paths of PEM files. */
  readonly certificate: string;
  readonly key: string;
  /** Certificate authority of client certificates; undefined when none are requested. */
  readonly clientCa: string | undefined;
  /** False when a client may also connect without a certificate. */
  readonly isClientCertificateRequired: boolean;
}

/** Returns the TLS settings, undefined when TLS is off. Throws {@link ConfigError} when only some of them are set. */
export function tlsSettings({ tls }: Pick<Config, 'tls'>): TlsSettings | undefined {
  const { listen, certificate, key, clientCa, clientCertificates } = tls;
  if (listen === undefined && certificate === undefined && key === undefined) {
    if (clientCa === undefined) return undefined;
    throw new ConfigError("'tls.clientCa' requires 'tls.listen', 'tls.certificate' and 'tls.key'");
  }
  if (listen === undefined || certificate === undefined || key === undefined) {
    throw new ConfigError(
      "'tls.listen', 'tls.certificate' and 'tls.key' go together: set all three, or none",
    );
  }
  const isClientCertificateRequired = clientCertificates === 'required';
  return { listen, certificate, key, clientCa, isClientCertificateRequired };
}
