import { type Digest, isDigest } from '../../oci/digest.ts';
import { canonicalRegistry, isRepository } from '../../oci/naming.ts';
import type { SealedGrant } from '../../platform/index.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { CredentialSource } from '../../upstream/auth/index.ts';
import { accessTo, type Registries, type RegistryClient } from '../../upstream/index.ts';

/** Bytes of a layer file, and their number if the server reports it. */
export interface LayerBytes {
  readonly body: ByteSource;
  readonly contentLength: number | undefined;
}

/** Provides the files behind layer URLs. Both methods throw a `Fault`. */
export interface LayerSource {
  /** Checks that the caller may read the URL, even if its content is already kept here. */
  admit(url: URL, grant: SealedGrant | undefined, signal?: AbortSignal): Promise<void>;
  open(url: URL, grant: SealedGrant | undefined, signal?: AbortSignal): Promise<LayerBytes>;
}

export interface LayerSourceDeps {
  /** Fetches from public addresses. */
  readonly fetch: (url: URL, signal?: AbortSignal) => Promise<LayerBytes>;
  readonly registry: RegistryClient;
  readonly credentialsOf: (grant: SealedGrant | undefined) => CredentialSource;
  readonly registries: Registries;
}

/**
 * Anonymous callers may submit layer URLs, so the operator's entries for a registry (its address, its credentials) do
 * not apply to them. Only a blob of a listed registry is fetched from there, with the right with which the caller would
 * pull it.
 */
export function createLayerSource(deps: LayerSourceDeps): LayerSource {
  const { fetch, registry, credentialsOf, registries } = deps;

  const accessOf = async ({ registry, repository }: Blob, grant: SealedGrant | undefined) =>
    accessTo({ registry, repository }, credentialsOf(grant));

  return {
    async admit(url, grant, signal) {
      const blob = blobOf(url, registries);
      if (blob) await registry.headBlob(await accessOf(blob, grant), blob.digest, signal);
    },

    async open(url, grant, signal) {
      const blob = blobOf(url, registries);
      if (!blob) return fetch(url, signal);
      const access = await accessOf(blob, grant);
      const opened = await registry.openBlob(access, blob.digest, {
        redirects: 'follow',
        signal,
      });
      if (opened.kind === 'redirect') throw new Error('a redirect was not followed');
      const { body, contentLength } = opened.response;
      return { body, contentLength };
    },
  };
}

interface Blob {
  readonly registry: string;
  readonly repository: string;
  readonly digest: Digest;
}

/** Returns the blob that a URL names at a listed registry; undefined for all other URLs. */
function blobOf({ host, pathname }: URL, registries: Registries): Blob | undefined {
  const registry = canonicalRegistry(host);
  if (!registries.has(registry)) return undefined;
  const [, repository = '', digest = ''] =
    /^\/v2\/(.{1,255})\/blobs\/([^/]+)$/.exec(pathname) ?? [];
  return isRepository(repository) && isDigest(digest)
    ? { registry, repository, digest }
    : undefined;
}
