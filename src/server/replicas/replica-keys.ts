import { hkdfSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readKeyFile } from '../../storage/directory/key-file.ts';
import { ConfigError } from '../config/config-error.ts';

/** What replicas derive from the keys that they share. */
export interface ReplicaKeys {
  /** Tells keys apart without revealing them. */
  readonly name: string;
  /** With it, a replica proves that it hands on a request. */
  readonly proof: string;
}

const files = ['secrets.key', 'registry-token.key'];
const derivedBytes = 32;

/**
 * Reads the keys in the directory. Does not create any: each replica would have others.
 *
 * @throws {@link ConfigError} when a key is missing
 */
export function readReplicaKeys(directory: string): ReplicaKeys {
  const keys = files.map(file => {
    const path = join(directory, file);
    if (existsSync(path)) return readKeyFile(path);
    throw new ConfigError(
      `${path} is missing, and all replicas need the same one: copy it from the data directory of the site. For a new site, create it once: head -c 32 /dev/urandom > ${file}`,
    );
  });
  const derive = (purpose: string) =>
    Buffer.from(
      hkdfSync('sha256', Buffer.concat(keys), '', `sluice replicas: ${purpose}`, derivedBytes),
    );
  return { name: derive('name').toString('hex'), proof: derive('proof').toString('base64url') };
}
