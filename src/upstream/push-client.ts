import { Fault, type FaultKind } from '../foundation/fault.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/index.ts';
import type { ByteSource } from '../storage/content/byte-source.ts';
import type { Access, Pushes } from './access.ts';
import { credentialKey } from './credentials.ts';
import type { Exchange } from './exchange.ts';
import { causeOf, quoted, readErrorWords } from './transport/failure.ts';
import { isBrokenConnection } from './transport/retry.ts';
import type { UpstreamRequest } from './transport/upstream-request.ts';
import type { UpstreamResponse } from './transport/upstream-response.ts';

/** A repository, with the right to push to it. */
export interface PushAccess extends Access {
  readonly pushes: Pushes;
}

/** A blob to push to a repository. */
export interface PushedBlob {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /**
   * True when the content store has the blob and the caller may read it: a hosted repository then takes it over as it
   * is.
   */
  readonly isKept?: boolean;
  /** True for a small blob that the repository most likely lacks: it is sent without a check first. */
  readonly isNew?: boolean;
  /** Opens the blob for each try; called only when the repository does not have it. */
  readonly open: () => Promise<ByteSource>;
}

/** The write operations of the distribution API. All methods throw {@link Fault}. */
export interface PushClient {
  /** Checks that a push would be accepted: begins an upload. A push that follows at once uses it; otherwise it is cancelled. */
  check(access: PushAccess, signal?: AbortSignal): Promise<void>;
  /**
   * Ensures that the repository has the blob: tries to mount it from `pushes.mountFrom`, checks for it, then uploads
   * it. The registry checks the digest.
   */
  putBlob(access: PushAccess, blob: PushedBlob, signal?: AbortSignal): Promise<BlobPush>;
  /** Pushes a manifest under a tag or its digest. All its parts must exist already. */
  putManifest(
    access: PushAccess,
    reference: string,
    document: Document,
    signal?: AbortSignal,
  ): Promise<ManifestPush>;
}

/** How the blob got into the repository. */
export type BlobPush = 'there' | 'mounted' | 'sent';

export interface ManifestPush {
  /** True when the registry added the manifest to the referrers of its subject (header `OCI-Subject`). */
  readonly isReferrer: boolean;
}

/** Returns the access to push to a repository. */
export function pushingTo(access: Access, mountFrom?: string): PushAccess {
  return { ...access, pushes: { mountFrom } };
}

// With these statuses, a retry of the same push fails again.
const refusals = [400, 405, 409, 412, 413, 422];
const blobTries = 3;
const usualSpareMs = 10_000;
const mostSpare = 100;
// A registry may copy a large blob within its storage before it responds.
const commitMs = 300_000;

/**
 * Source: OCI distribution specification 1.1, Pushing blobs (POST then PUT, mounting) and manifests.
 *
 * @param exchange sends requests to registries; pushes never go to a mirror
 * @param endpointOf returns the address of a registry
 * @param spareMs how long an upload that a check has begun waits for a push
 */
export function createPushClient(
  exchange: Exchange,
  endpointOf: (registry: string) => URL,
  spareMs = usualSpareMs,
): PushClient {
  /** Returns the address where the registry wants the bytes. */
  const locationOf = (access: PushAccess, response: UpstreamResponse): URL => {
    const asked = new URL(`/v2/${access.repository}/blobs/uploads/`, endpointOf(access.registry));
    const location = response.headers.get('location');
    if (response.status !== 202 || !location || !URL.canParse(location, asked.href)) {
      throw odd(access, response, 'to the start of an upload');
    }
    const url = new URL(location, asked);
    if (url.protocol === 'https:' || url.protocol === asked.protocol) return url;
    throw new Fault(
      'upstream-unusable',
      `The registry ${access.registry} redirects the upload of a push to ${url.protocol}, which is refused: ask its operator for an https address`,
      { phase: 'push' },
    );
  };

  const ask = async (access: PushAccess, request: Omit<UpstreamRequest, 'what'>) => {
    const response = await exchange(access, {
      what: `pushing to ${access.registry}/${access.repository}`,
      ...request,
      acceptedStatuses: [...(request.acceptedStatuses ?? []), ...refusals],
    }).catch(error => {
      throw inPush(access, error);
    });
    if (refusals.includes(response.status)) throw await refused(access, response);
    response.body.destroy();
    return response;
  };

  const begin = (access: PushAccess, query: string, signal?: AbortSignal) =>
    ask(access, {
      method: 'POST',
      missing: 'not-found',
      path: `blobs/uploads/${query}`,
      headers: { 'content-length': '0' },
      signal,
    });

  // By repository and credentials.
  const spare = new Map<
    string,
    { readonly begun: UpstreamResponse; readonly timer: NodeJS.Timeout }
  >();

  const keepSpare = (access: PushAccess, begun: UpstreamResponse): void => {
    const key = placeKey(access);
    if (spare.has(key) || spare.size === mostSpare) {
      endUpload(access, begun);
      return;
    }
    const expire = () => {
      spare.delete(key);
      endUpload(access, begun);
    };
    spare.set(key, { begun, timer: setTimeout(expire, spareMs).unref() });
  };

  const takeSpare = (access: PushAccess): UpstreamResponse | undefined => {
    const key = placeKey(access);
    const kept = spare.get(key);
    clearTimeout(kept?.timer);
    spare.delete(key);
    return kept?.begun;
  };

  const send = async (
    access: PushAccess,
    { digest, size, open }: PushedBlob,
    begun: UpstreamResponse,
    signal?: AbortSignal,
  ) => {
    const url = locationOf(access, begun);
    url.searchParams.set('digest', digest);
    const response = await ask(access, {
      method: 'PUT',
      missing: 'upload-unknown',
      path: url,
      headers: { 'content-type': 'application/octet-stream' },
      upload: async () => ({ source: await open(), size }),
      headersMs: commitMs,
      isOnce: true,
      signal,
    });
    if (response.status !== 201) throw odd(access, response, 'to the bytes of a blob');
  };

  const put = async (
    access: PushAccess,
    blob: PushedBlob,
    signal?: AbortSignal,
  ): Promise<BlobPush> => {
    const begun = await beginByMount(access, blob.digest, signal);
    if (begun?.status === 201) return 'mounted';
    const target = pushingTo(access);
    if (!blob.isNew && (await hasBlob(target, blob.digest, signal))) {
      if (begun) endUpload(target, begun);
      return 'there';
    }
    const upload = begun ?? takeSpare(target) ?? (await begin(target, '', signal));
    await send(target, blob, upload, signal);
    return 'sent';
  };

  /** Cancels an upload. Nobody waits: it also expires at the registry, and not every registry can cancel one. */
  const endUpload = (access: PushAccess, begun: UpstreamResponse): void => {
    const path = locationOf(access, begun);
    ask(access, {
      method: 'DELETE',
      missing: 'upload-unknown',
      path,
      headers: {},
      isOnce: true,
    }).catch(() => {});
  };

  /** Tries to mount a blob from `pushes.mountFrom`: afterwards the registry has it, or has begun an upload. */
  const beginByMount = async (access: PushAccess, digest: Digest, signal?: AbortSignal) => {
    const { mountFrom } = access.pushes;
    if (mountFrom === undefined) return undefined;
    try {
      return await begin(
        access,
        `?${new URLSearchParams({ mount: digest, from: mountFrom })}`,
        signal,
      );
    } catch (error) {
      // The credentials may have no right to the other repository, and a push does not need one.
      if (signal?.aborted) throw error;
      return undefined;
    }
  };

  const hasBlob = async (access: PushAccess, digest: Digest, signal?: AbortSignal) => {
    const response = await ask(access, {
      method: 'HEAD',
      missing: 'blob-unknown',
      path: `blobs/${digest}`,
      headers: {},
      acceptedStatuses: [404],
      signal,
    });
    return response.status === 200;
  };

  return {
    async check(access, signal) {
      const begun = await begin(access, '', signal);
      locationOf(access, begun);
      keepSpare(access, begun);
    },

    async putBlob(access, blob, signal) {
      for (let tried = 1; ; tried += 1) {
        try {
          return await put(access, blob, signal);
        } catch (error) {
          const isPassing =
            error instanceof Fault &&
            (error.status >= 500 ||
              error.kind === 'upload-unknown' ||
              isBrokenConnection(error.cause));
          if (!isPassing || tried >= blobTries || signal?.aborted) throw error;
        }
      }
    },

    async putManifest(access, reference, { bytes, mediaType }, signal) {
      const response = await ask(pushingTo(access), {
        method: 'PUT',
        missing: 'manifest-blob-unknown',
        path: `manifests/${reference}`,
        headers: { 'content-type': mediaType, 'content-length': String(bytes.length) },
        body: bytes,
        headersMs: commitMs,
        signal,
      });
      if (response.status >= 300) throw odd(access, response, 'to a manifest');
      return { isReferrer: response.headers.has('oci-subject') };
    },
  };
}

function placeKey({ registry, repository, credentials, isService }: Access): string {
  return `${registry} ${repository} ${isService === true} ${credentialKey(credentials)}`;
}

function odd({ registry }: Access, { status }: UpstreamResponse, what: string): Fault {
  return new Fault(
    status < 500 ? 'upstream-unusable' : 'upstream',
    `The registry ${registry} answered ${status} ${what}: it may not accept pushes`,
    {
      phase: 'push',
    },
  );
}

/** Returns the fault for a rejected push: an immutable tag, a quota, a manifest of an unsupported type. */
async function refused(
  { registry, credentials }: Access,
  response: UpstreamResponse,
): Promise<Fault> {
  const words = await readErrorWords(response, credentials);
  return new Fault(
    'bad-request',
    `The registry ${registry} refuses the push (${response.status})${quoted(words)}`,
    { phase: 'push', ...causeOf(words) },
  );
}

/** Returns the same failure, reported as a failure of a push. */
function inPush({ registry, repository }: Access, error: unknown): unknown {
  if (!(error instanceof Fault)) return error;
  const { kind, phase, retryAfterSeconds, headers } = error;
  const missing: Partial<Record<FaultKind, string>> = {
    'not-found': `${registry}/${repository} does not exist, and ${registry} does not create repositories on a push: create it first`,
    'upload-unknown': `${registry} no longer knows the upload to ${repository} that it had started: try again`,
    'manifest-blob-unknown': `${registry}/${repository} lacks a blob or manifest that the manifest refers to: try again`,
  };
  const message = missing[kind] ?? error.message;
  return new Fault(kind, message, {
    phase: phase === 'credentials' ? phase : 'push',
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    headers,
    cause: error.cause,
  });
}
