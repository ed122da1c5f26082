import { canonicalRegistry } from '../oci/naming.ts';
import type { Credentials } from './credentials.ts';
import type { PrivateHosts } from './transport/address-guard.ts';

/** How blobs of a registry reach the client. */
export type BlobMode = 'redirect' | 'relay' | 'cache';

/** The operator's settings for one registry. */
export interface RegistrySettings {
  readonly credentials?: Credentials;
  /** True when the credentials that the operator listed for it also serve callers without a login. */
  readonly anonymous: boolean;
  readonly plainHttp: boolean;
  /** PEM text of the certificate authorities to trust for this registry, in addition to the system's. */
  readonly ca?: string;
  /** Other hosts to try first, in order. */
  readonly mirrors: readonly string[];
  readonly allowPrivateAddress: boolean;
  readonly blobs: BlobMode;
  /** Hosts outside the registry's own domain that may issue its bearer tokens. */
  readonly tokenHosts: readonly string[];
}

export const defaultRegistrySettings: RegistrySettings = {
  anonymous: false,
  plainHttp: false,
  mirrors: [],
  allowPrivateAddress: false,
  blobs: 'redirect',
  tokenHosts: [],
};

/** Settings by exact host and port. */
export type Registries = ReadonlyMap<string, RegistrySettings>;

/** Returns the same registries without the right to closed addresses. */
export function withoutReach(registries: Registries): Registries {
  return new Map(
    [...registries].map(([host, own]) => [
      host,
      { ...own, allowPrivateAddress: false, tokenHosts: [] },
    ]),
  );
}

/** Returns the settings of a registry; the defaults if it is not listed. */
export function settingsOf(registries: Registries, registry: string): RegistrySettings {
  return registries.get(canonicalRegistry(registry)) ?? defaultRegistrySettings;
}

/** Returns the base URL of a registry's API. Docker Hub serves its API under a separate host. */
export function endpointOf(registries: Registries, registry: string): URL {
  if (registry === 'docker.io' && !registries.get(registry)?.plainHttp) {
    return new URL('https://registry-1.docker.io');
  }
  const scheme = settingsOf(registries, registry).plainHttp ? 'http' : 'https';
  return new URL(`${scheme}://${registry}`);
}

/**
 * Returns the hosts that may have a closed address: listed registries, unless the operator forbids it, and their token
 * services.
 */
export function privateHostsOf(registries: Registries): PrivateHosts {
  const ports: Readonly<Record<string, string>> = { ':443': '', ':80': '' };
  const bare = (host: string) => host.replace(/:(?:443|80)$/, port => ports[port] ?? port);
  const allowed = new Set(
    [...registries]
      .filter(([, own]) => own.allowPrivateAddress)
      .flatMap(([host, own]) => [host, ...own.tokenHosts].map(bare)),
  );
  return host => allowed.has(bare(host));
}
