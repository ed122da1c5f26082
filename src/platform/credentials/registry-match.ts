import { canonicalRegistry, registryHost, withoutApi } from '../../oci/naming.ts';
import type { CredentialEntry } from '../workflow-platform.ts';
import { ecrRegistry } from './ecr-registry.ts';

/** The scope of credentials: a registry, or the part of it below a path. */
export interface RegistryScope {
  readonly host: string;
  readonly path: string;
}

const googleHosts = /(?:^|\.)gcr\.io$|^[a-z0-9-]+-docker\.pkg\.dev$/;
const azureHosts = /\.azurecr\.(?:io|cn|us)$/;

// Accounts of clouds work for the cloud's registries without naming one.
const cloudHosts: Readonly<Record<string, (host: string) => boolean>> = {
  aws: host => ecrRegistry(host) !== undefined,
  google: host => googleHosts.test(host),
  azure: host => azureHosts.test(host),
};

export function isGoogleRegistry(host: string): boolean {
  return googleHosts.test(host);
}

export function isAzureRegistry(host: string): boolean {
  return azureHosts.test(host);
}

/**
 * Returns `host[/path]` in canonical spelling. Accepts a scheme, a slash at the end, the address of the registry's
 * API, and the API version that docker appends to its own host. Without a host it is Docker Hub, as in image names.
 */
export function parseScope(text: string | undefined): RegistryScope {
  const trimmed = withoutApi(text ?? '');
  const segments = trimmed.split('/').filter(segment => segment !== '');
  const [first = ''] = segments;
  const hasHost = /[.:]/.test(first) || first === 'localhost';
  const host = hasHost ? canonicalRegistry(first) : 'docker.io';
  const path = segments.slice(hasHost ? 1 : 0).join('/');
  const isApi = host === 'docker.io' && /^v[12]$/.test(path);
  return { host, path: isApi ? '' : path };
}

/**
 * Returns the scope of credentials from the platform's name for it; undefined when that is not the name of a registry.
 * Taken as a path at Docker Hub, such a name would send the password of another registry there.
 */
export function credentialScope(text: string | undefined): RegistryScope | undefined {
  const isNamed = text !== undefined && text.trim() !== '';
  return isNamed && registryHost(text) === undefined ? undefined : parseScope(text);
}

/** True when the repository of the registry is within the scope; a scope with a path needs a repository. */
export function isWithin(
  scope: RegistryScope | undefined,
  registry: string,
  repository: string | undefined,
): boolean {
  if (scope?.host !== canonicalRegistry(registry)) return false;
  return scope.path === '' || `${repository ?? ''}/`.startsWith(`${scope.path}/`);
}

function lengthOf(scope: RegistryScope | undefined): number {
  return scope?.path.length ?? 0;
}

/** Credentials that may match a repository. */
export interface Candidate {
  readonly entry: CredentialEntry;
  /** False for an account of the registry's cloud, which may have no rights there. */
  readonly isNamed: boolean;
}

/**
 * Returns the matching credentials: those that name the registry first, longest path first; then accounts of its
 * cloud. Otherwise their order stays.
 */
export function candidatesFor(
  entries: readonly CredentialEntry[],
  registry: string,
  repository: string | undefined,
): Candidate[] {
  const host = canonicalRegistry(registry);
  const named = entries
    .filter(({ registry: own, provider }) => own !== undefined || provider === 'container-reg')
    .map(entry => ({ entry, scope: credentialScope(entry.registry) }))
    .filter(({ scope }) => isWithin(scope, registry, repository))
    .sort((one, other) => lengthOf(other.scope) - lengthOf(one.scope))
    .map(({ entry }) => ({ entry, isNamed: true }));
  const ofCloud = entries
    .filter(({ registry: own, provider }) => {
      const cloud = provider.replace(/[_-].*/s, '');
      return own === undefined && cloudHosts[cloud]?.(host);
    })
    .map(entry => ({ entry, isNamed: false }));
  return [...named, ...ofCloud];
}
