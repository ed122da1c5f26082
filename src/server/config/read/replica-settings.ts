import { ConfigError } from '../config-error.ts';
import type { Config } from '../settings-schema.ts';

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

/** Returns the directory of the keys of a site. */
export function keyDirectory({ replica, data }: Pick<Config, 'replica' | 'data'>): string {
  return replica.keys ?? data;
}

/** True when many clients reach this server through the connections of a few others. */
export function isBehindOthers(config: Pick<Config, 'trustedProxies' | 'replica'>): boolean {
  return config.trustedProxies > 0 || config.replica.address !== undefined;
}
