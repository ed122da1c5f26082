import { canonicalRegistry } from '../oci/reference.ts';
import type { Credentials } from './auth/credentials.ts';
import type { PrivateHosts } from './transport/address-guard.ts';

/** How blobs of a registry reach the client. */
export type BlobMode = 'redirect' | 'relay' | 'cache';

/** What the operator says about one registry. */
export interface RegistrySettings {
  readonly credentials?: Credentials;
  /** What the operator has listed for it serves callers without a login as well. */
  readonly anonymous: boolean;
  readonly plainHttp: boolean;
  /** PEM text of the certificate authorities to trust for this registry, besides the system's. */
  readonly ca?: string;
  /** Other hosts to ask first, in order. */
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

/** The same registries, none of which may be at a closed address. */
export function withoutReach(registries: Registries): Registries {
  return new Map(
    [...registries].map(([host, own]) => [
      host,
      { ...own, allowPrivateAddress: false, tokenHosts: [] },
    ]),
  );
}

/** The settings of a registry, the defaults where it is not listed. */
export function settingsOf(registries: Registries, registry: string): RegistrySettings {
  return registries.get(canonicalRegistry(registry)) ?? defaultRegistrySettings;
}

/** Base URL of a registry's API; Docker Hub answers under a host of its own. */
export function endpointOf(registries: Registries, registry: string): URL {
  if (registry === 'docker.io' && !registries.get(registry)?.plainHttp) {
    return new URL('https://registry-1.docker.io');
  }
  const scheme = settingsOf(registries, registry).plainHttp ? 'http' : 'https';
  return new URL(`${scheme}://${registry}`);
}

/** The hosts that may have a closed address: registries that are listed and not forbidden it, and their token services. */
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
