import { isIPv4 } from 'node:net';
import type { OwnHosts } from '../../../http/index.ts';
import { ConfigError } from '../config-file.ts';
import type { Config } from '../settings-schema.ts';

/** Returns the public base URL: `url`, else the address that the server listens on. */
export function publicUrlOf({ url, tls, listen }: Pick<Config, 'url' | 'tls' | 'listen'>): URL {
  return new URL(url ?? (tls.listen === undefined ? `http://${listen}` : `https://${tls.listen}`));
}

/** True for a host that only this machine can reach. Any name except `localhost` may be reachable from elsewhere. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'));
}

const everyAddress = new Set(['0.0.0.0', '::']);

/** Returns what keeps other machines from the names of images. */
export function addressWarnings(
  config: Pick<Config, 'url' | 'tls' | 'listen' | 'trustedProxies'>,
): string[] {
  const { tls, listen, trustedProxies } = config;
  const { host, hostname, origin } = publicUrlOf(config);
  if (everyAddress.has(hostname.replace(/^\[|\]$/g, ''))) {
    return [
      `Names of images begin with ${host}, at which no other machine reaches this server: set SLUICE_URL to the address that clients use`,
    ];
  }
  const { hostname: listening } = new URL(`http://${listen}`);
  if (tls.listen !== undefined || trustedProxies > 0) return [];
  if (isLoopback(hostname) || !isLoopback(listening)) return [];
  return [
    `Others reach ${origin} only through a proxy, because this server listens on ${listen}: set SLUICE_LISTEN to another address, or SLUICE_TRUSTED_PROXIES to the number of your proxies`,
  ];
}

/** Returns the hosts that the server answers to: those of its own addresses, and of `hosts`. */
export function ownHosts(
  { hosts, listen, tls, replica }: Pick<Config, 'hosts' | 'listen' | 'tls' | 'replica'>,
  publicUrl: URL,
): OwnHosts {
  const addresses = [listen, ...(tls.listen === undefined ? [] : [tls.listen])];
  const listening = addresses.map(address => new URL(`http://${address}`));
  const replicas = replica.address === undefined ? [] : [new URL(replica.address)];
  const own = [publicUrl, ...replicas, ...listening].map(({ hostname }) =>
    hostname.replace(/^\[|\]$/g, ''),
  );
  return {
    names: [...own, ...hosts.filter(host => !host.includes('/'))],
    networks: hosts.filter(host => host.includes('/')),
    hasAllAddresses: own.some(host => everyAddress.has(host)),
  };
}

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

/** Settings of one of several servers of a site. */
export interface ReplicaSettings {
  /** Where the other replicas reach this one. */
  readonly address: URL;
  /** Directory of the keys that all replicas share. */
  readonly keys: string;
  /** Address of the database. */
  readonly database: string;
}

/**
 * Returns the settings of a replica; undefined for the only server of its site.
 *
 * @throws {@link ConfigError} when the site has something that only one server can use
 */
export function replicaSettings(config: Config): ReplicaSettings | undefined {
  const { address, keys } = config.replica;
  if (address === undefined) return undefined;
  const { database, content } = config;
  const missing = [
    ...(database === 'sqlite' ? ['database: postgres://... (SLUICE_DATABASE)'] : []),
    ...(content === 'directory' ? ['content: s3://... (SLUICE_CONTENT)'] : []),
    ...(config.url === undefined ? ['url (SLUICE_URL), the address of all replicas'] : []),
    ...(keys === undefined ? ['replica.keys (SLUICE_REPLICA_KEYS)'] : []),
  ];
  if (keys === undefined || missing.length > 0) {
    throw new ConfigError(`'replica.address' requires ${missing.join(', ')}`);
  }
  return { address: new URL(address), keys, database };
}

/**
 * Returns the address and the bound of the read replica of the database; undefined without one.
 *
 * @throws {@link ConfigError} when the rows are in SQLite
 */
export function readReplicaSettings({ database, readReplica }: Config) {
  const { database: url, maxAge: maxAgeMs } = readReplica;
  if (url === undefined) return undefined;
  if (database === 'sqlite') {
    throw new ConfigError(
      "'readReplica.database' requires database: postgres://... (SLUICE_DATABASE)",
    );
  }
  return { url, maxAgeMs };
}

/** Returns the directory of the keys of a site. */
export function keyDirectory({ replica, data }: Pick<Config, 'replica' | 'data'>): string {
  return replica.keys ?? data;
}

/** True when many clients reach this server through the connections of a few others. */
export function isBehindOthers(config: Pick<Config, 'trustedProxies' | 'replica'>): boolean {
  return config.trustedProxies > 0 || config.replica.address !== undefined;
}
