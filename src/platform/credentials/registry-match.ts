import { canonicalRegistry } from '../../oci/reference.ts';
import { registryHost } from '../../oci/registry-name.ts';
import type { CredentialEntry } from '../workflow-platform.ts';
import { ecrRegistry } from './ecr-registry.ts';

/** What credentials are for: a registry, and a part of it where there is a path. */
export interface RegistryScope {
  readonly host: string;
  readonly path: string;
}

const googleHosts = /(?:^|\.)gcr\.io$|^[a-z0-9-]+-docker\.pkg\.dev$/;
const azureHosts = /\.azurecr\.(?:io|cn|us)$/;

// Accounts of clouds are good for their registries without naming one.
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
 * What `host[/path]` names, in one spelling: with or without a scheme, a slash at the end, the API version
 * that docker writes behind its own host. Without a host it is Docker Hub, as in image names.
 */
export function parseScope(text: string | undefined): RegistryScope {
  const trimmed = (text ?? '').trim().replace(/^https?:\/\//i, '');
  const segments = trimmed.split('/').filter(segment => segment !== '');
  const [first = ''] = segments;
  const hasHost = /[.:]/.test(first) || first === 'localhost';
  const host = hasHost ? canonicalRegistry(first) : 'docker.io';
  const path = segments.slice(hasHost ? 1 : 0).join('/');
  const isApi = host === 'docker.io' && /^v[12]$/.test(path);
  return { host, path: isApi ? '' : path };
}

/**
 * What credentials are for, by the name that a platform has for it; undefined for a name that is not that of a
 * registry. As a path at Docker Hub it would have the password of another registry sent there.
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

/** Credentials that may be for a repository. */
export interface Candidate {
  readonly entry: CredentialEntry;
  /** False for an account of the registry's cloud, which may or may not have to do with it. */
  readonly isNamed: boolean;
}

/** Those that name the registry, the longest path first, then accounts of its cloud; otherwise in their order. */
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
      const cloud = provider.replace(/[_-].*$/, '');
      return own === undefined && cloudHosts[cloud]?.(host);
    })
    .map(entry => ({ entry, isNamed: false }));
  return [...named, ...ofCloud];
}
