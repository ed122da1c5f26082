import { Fault } from '../foundation/fault.ts';
import { type Digest, digestOf, isDigest, splitDigest } from '../oci/digest.ts';
import { type Descriptor, type Document, documentOf } from '../oci/index.ts';
import { bareMediaType, manifestAccept, mediaTypes } from '../oci/media-type.ts';
import type { Access } from './access.ts';
import type { Exchange } from './exchange.ts';
import { faultOfError, titleOf } from './transport/failure.ts';
import { isBrokenConnection } from './transport/retry.ts';
import type { UpstreamRequest } from './transport/upstream-request.ts';
import { readAll, type UpstreamResponse } from './transport/upstream-response.ts';

/** The read operations of the distribution API of other registries. All methods throw {@link Fault}. */
export interface RegistryClient {
  /** Resolves a tag or digest to its current manifest; undefined when the registry does not report it on HEAD. */
  headManifest(access: Access, reference: string, signal?: AbortSignal): Promise<Head | undefined>;
  /** Returns the manifest with its bytes; for a digest, the bytes are verified. */
  getManifest(access: Access, reference: string, signal?: AbortSignal): Promise<Document>;
  /** Returns a small blob, such as an image config, whole and verified. */
  getBlob(
    access: Access,
    digest: Digest,
    mediaType: string,
    signal?: AbortSignal,
  ): Promise<Document>;
  /** Opens a blob for streaming. */
  openBlob(access: Access, digest: Digest, options: OpenBlobOptions): Promise<OpenedBlob>;
  /** Returns the size of a blob in bytes; undefined when the registry does not report it. */
  headBlob(access: Access, digest: Digest, signal?: AbortSignal): Promise<number | undefined>;
  /** Returns a JSON response: `tags/list`, `referrers/<digest>`. `query` begins with `?` or is empty. */
  getJson(access: Access, path: string, query: string, signal?: AbortSignal): Promise<JsonResponse>;
}

type Head = Pick<Descriptor, 'digest' | 'mediaType'>;

export interface OpenBlobOptions {
  /** First byte wanted. The response may begin at 0 anyway, see `offset`. */
  readonly offset?: number;
  /** Last byte wanted. Default: the end. */
  readonly last?: number;
  /** Bytes of the whole blob, where they are known: a response with another length is a {@link Fault}. */
  readonly size?: number | undefined;
  /** `handOn` returns the address of a redirect that a client can use. Other redirects are followed. */
  readonly redirects: 'follow' | 'handOn';
  readonly signal?: AbortSignal | undefined;
}

export type OpenedBlob =
  | { readonly kind: 'redirect'; readonly location: URL }
  | {
      readonly kind: 'bytes';
      readonly response: UpstreamResponse;
      /** Position in the blob of the body's first byte. */
      readonly offset: number;
      /** Bytes of the whole blob; undefined when the registry does not report them. */
      readonly total: number | undefined;
    };

export interface JsonResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

// A registry without HEAD returns one of these; the client then uses GET.
const methodUnknown = [405, 501];
const manifestLimit = 4 * 1024 * 1024;
const jsonLimit = 4 * 1024 * 1024;

// A document is small: one that breaks off is requested again as a whole.
const documentTries = 3;

export function createRegistryClient(exchange: Exchange): RegistryClient {
  const read = async (access: Access, limit: number, request: UpstreamRequest) => {
    for (let tried = 1; ; tried += 1) {
      const response = await exchange(access, request);
      try {
        return { response, bytes: await readAll(response.body, limit, request.what) };
      } catch (error) {
        if (tried < documentTries && isBrokenConnection(error)) continue;
        throw faultOfError(error, access, request);
      }
    }
  };

  return {
    async headManifest(access, reference, signal) {
      const response = await exchange(access, {
        method: 'HEAD',
        path: `manifests/${reference}`,
        headers: { accept: manifestAccept },
        what: nameOf(access, reference),
        missing: 'manifest-unknown',
        acceptedStatuses: methodUnknown,
        signal,
      });
      response.body.destroy();
      const digest = response.headers.get('docker-content-digest') ?? '';
      const mediaType = bareMediaType(response.headers.get('content-type')) ?? '';
      return isDigest(digest) ? { digest, mediaType } : undefined;
    },

    async getManifest(access, reference, signal) {
      const name = nameOf(access, reference);
      const { response, bytes } = await read(access, manifestLimit, {
        method: 'GET',
        path: `manifests/${reference}`,
        headers: { accept: manifestAccept },
        what: name,
        missing: 'manifest-unknown',
        signal,
      });
      const mediaType =
        bareMediaType(response.headers.get('content-type')) ?? mediaTypes.ociManifest;
      requireManifest(bytes, access, name);
      return isDigest(reference)
        ? verifiedDocument(bytes, mediaType, reference, name)
        : documentOf(bytes, mediaType);
    },

    async getBlob(access, digest, mediaType, signal) {
      const name = nameOf(access, digest);
      const { bytes } = await read(access, manifestLimit, {
        method: 'GET',
        path: `blobs/${digest}`,
        headers: {},
        what: name,
        missing: 'blob-unknown',
        signal,
      });
      return verifiedDocument(bytes, mediaType, digest, name);
    },

    async openBlob(access, digest, { offset = 0, last, size, redirects, signal }) {
      const isPart = offset > 0 || last !== undefined;
      const response = await exchange(access, {
        method: 'GET',
        path: `blobs/${digest}`,
        headers: isPart ? { range: `bytes=${offset}-${last ?? ''}` } : {},
        what: nameOf(access, digest),
        missing: 'blob-unknown',
        signal,
        isBlob: true,
        redirects,
      });
      if (response.redirect) {
        response.body.destroy();
        return { kind: 'redirect', location: response.redirect };
      }
      try {
        const { registry } = access;
        return {
          kind: 'bytes',
          response,
          ...partOfBlob(response, { registry, digest, offset, size }),
        };
      } catch (error) {
        response.body.destroy();
        throw error;
      }
    },

    async headBlob(access, digest, signal) {
      const response = await exchange(access, {
        method: 'HEAD',
        path: `blobs/${digest}`,
        headers: {},
        what: nameOf(access, digest),
        missing: 'blob-unknown',
        signal,
      });
      response.body.destroy();
      return response.contentLength;
    },

    async getJson(access, path, query, signal) {
      const { response, bytes } = await read(access, jsonLimit, {
        method: 'GET',
        path: `${path}${query}`,
        headers: { accept: `${mediaTypes.ociIndex}, application/json` },
        what: `${path} of ${access.registry}/${access.repository}`,
        missing: 'not-found',
        signal,
      });
      return { status: response.status, headers: response.headers, body: bytes };
    },
  };
}

function nameOf({ registry, repository }: Access, reference: string): string {
  return `${registry}/${repository}${isDigest(reference) ? '@' : ':'}${reference}`;
}

function verifiedDocument(
  bytes: Buffer,
  mediaType: string,
  wanted: Digest,
  name: string,
): Document {
  const digest = digestOf(bytes, splitDigest(wanted).algorithm);
  if (digest !== wanted) {
    throw new Fault(
      'upstream',
      `The registry returned the wrong content for ${name}: its digest is ${digest}. Try again, and report it to the owner of the registry if it happens again`,
      { phase: 'upstream' },
    );
  }
  return { bytes, mediaType, digest };
}

/** Throws a `Fault` for what a portal, a proxy or another kind of server sends in place of a manifest. */
function requireManifest(bytes: Buffer, { registry }: Access, name: string): void {
  const isPage = /^\s*</.test(bytes.subarray(0, 200).toString('latin1'));
  if (bytes.length > 0 && !isPage) return;
  const title = isPage ? titleOf(bytes.subarray(0, 16 * 1024).toString('utf8')) : '';
  const what = isPage ? `a web page${title === '' ? '' : ` ("${title}")`}` : 'nothing';
  throw new Fault(
    'upstream',
    `${registry} answered ${what} in place of the manifest of ${name}: check that ${registry} is a registry, and that no proxy or login page answers for it`,
    { phase: 'upstream' },
  );
}

/** A requested blob, or the rest of one. */
interface AskedBlob {
  readonly registry: string;
  readonly digest: Digest;
  /** First requested byte. */
  readonly offset: number;
  /** Bytes of the whole blob, where its manifest or an earlier response specified them. */
  readonly size: number | undefined;
}

/** Position of a response's body in its blob. */
interface BlobPart {
  /** Position of the first byte. */
  readonly offset: number;
  /** Bytes of the whole blob; undefined when the registry does not report them. */
  readonly total: number | undefined;
}

/**
 * Returns the part of a blob that a response contains. Throws a {@link Fault} for a response that cannot be that blob:
 * no later check would detect a part with a gap, or an empty body. A 206 without `Content-Range` counts as the
 * requested part. Source: RFC 9110, sections 14.4 and 15.3.7.
 */
function partOfBlob(response: UpstreamResponse, asked: AskedBlob): BlobPart {
  const part = readPlace(response, asked);
  const { total } = part;
  if (total !== undefined && total !== (asked.size ?? total)) {
    throw wrongBlob(asked, `has ${total} bytes for it, not ${asked.size} as its manifest says`);
  }
  checkNotEmpty(asked, total);
  return part;
}

/** Throws a {@link Fault} for a size of 0, unless the digest is the digest of empty content. */
export function checkNotEmpty(
  asked: Pick<AskedBlob, 'registry' | 'digest'>,
  size: number | undefined,
): void {
  if (size === 0 && asked.digest !== emptyDigest(asked.digest)) {
    throw wrongBlob(asked, 'returned no data');
  }
}

function readPlace(response: UpstreamResponse, asked: AskedBlob): BlobPart {
  const { status, headers, contentLength } = response;
  if (status === 200) return { offset: 0, total: contentLength };
  if (status !== 206) throw wrongBlob(asked, `answered ${status}`);
  const field = headers.get('content-range');
  if (field === undefined) return { offset: asked.offset, total: undefined };
  const [, first, last, all] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(field) ?? [];
  const [offset, end] = [Number(first), Number(last)];
  const total = all === undefined || all === '*' ? undefined : Number(all);
  const isRange = first !== undefined && offset <= end && end < (total ?? Number.POSITIVE_INFINITY);
  const isWanted = offset <= asked.offset && asked.offset <= end;
  const isLong = contentLength === undefined || contentLength === end - offset + 1;
  if (isRange && isWanted && isLong) return { offset, total };
  const shown = field.replace(/[^\x20-\x7e]/g, ' ').slice(0, 80);
  throw wrongBlob(
    asked,
    `returned the wrong part: Content-Range is '${shown}', but the request was for byte ${asked.offset}`,
  );
}

function emptyDigest(digest: Digest): Digest {
  return digestOf(Buffer.alloc(0), splitDigest(digest).algorithm);
}

function wrongBlob(
  { registry, digest }: Pick<AskedBlob, 'registry' | 'digest'>,
  what: string,
): Fault {
  return new Fault(
    'upstream',
    `The registry ${registry} cannot deliver the blob ${digest}: it ${what}`,
    { phase: 'upstream' },
  );
}

/**
 * Resolves a tag or digest to its current manifest. Where HEAD does not report it, requests the manifest itself. A
 * missing right or a missing manifest always throws the {@link Fault} that says so.
 */
export async function findManifest(
  registry: Pick<RegistryClient, 'headManifest' | 'getManifest'>,
  access: Access,
  reference: string,
): Promise<Head> {
  const head = await registry.headManifest(access, reference);
  if (head) return head;
  const { digest, mediaType } = await registry.getManifest(access, reference);
  return { digest, mediaType };
}
