import { Readable } from 'node:stream';
import { Fault, type FaultKind } from '../foundation/fault.ts';
import type { Digest } from '../oci/digest.ts';
import type { Document } from '../oci/document.ts';
import type { ByteSource } from '../storage/content/byte-source.ts';
import type { Access, Pushes } from './access.ts';
import type { Answer } from './exchange/answer.ts';
import { causeOf, quoted, readErrorWords } from './exchange/error-words.ts';
import type { Exchange } from './exchange/exchange.ts';
import type { Question } from './exchange/question.ts';
import { isBrokenConnection } from './transport/retry.ts';

/** A repository, in the right to push to it. */
export interface PushAccess extends Access {
  readonly pushes: Pushes;
}

/** A blob that a repository is to have. */
export interface PushedBlob {
  readonly digest: Digest;
  /** Bytes. */
  readonly size: number;
  /** It is in the content store, and the asker may have it: a hosted repository takes it over as it is. */
  readonly isKept?: boolean;
  /** Opened when the repository does not have it, for each try. */
  readonly open: () => Promise<ByteSource>;
}

/** The writing side of the distribution API. All methods throw {@link Fault}. */
export interface PushClient {
  /** Makes sure that a push would be let in: begins an upload and gives it up. */
  check(access: PushAccess, signal?: AbortSignal): Promise<void>;
  /**
   * Sees to it that the repository has the blob: looks, asks to take it over from `pushes.mountFrom`,
   * sends it. The registry checks the digest.
   */
  putBlob(access: PushAccess, blob: PushedBlob, signal?: AbortSignal): Promise<BlobPush>;
  /** Puts a manifest, all parts of which are there, under a tag or its digest. */
  putManifest(
    access: PushAccess,
    reference: string,
    document: Document,
    signal?: AbortSignal,
  ): Promise<ManifestPush>;
}

/** What it took to have a blob there. */
export type BlobPush = 'there' | 'mounted' | 'sent';

export interface ManifestPush {
  /** The registry has noted its subject among that one's referrers (header `OCI-Subject`). */
  readonly isReferrer: boolean;
}

/** A repository in the right to push. */
export function pushingTo(access: Access, mountFrom?: string): PushAccess {
  return { ...access, pushes: { mountFrom } };
}

// Whatever is wrong, the same push will not be taken the next time.
const refusals = [400, 405, 409, 412, 413, 422];
const blobTries = 3;
// A registry may copy a large blob within its storage before it answers.
const commitMs = 300_000;

/**
 * @param exchange asks registries; no mirror is pushed to
 * @param endpointOf the address of a registry
 * Source: OCI distribution specification 1.1, Pushing blobs (POST then PUT, mounting) and manifests.
 */
export function createPushClient(
  exchange: Exchange,
  endpointOf: (registry: string) => URL,
): PushClient {
  /** Where the registry wants the bytes. */
  const locationOf = (access: PushAccess, answer: Answer): URL => {
    const asked = new URL(`/v2/${access.repository}/blobs/uploads/`, endpointOf(access.registry));
    const location = answer.headers.get('location');
    if (answer.status !== 202 || !location || !URL.canParse(location, asked.href)) {
      throw odd(access, answer, 'to the beginning of an upload');
    }
    const url = new URL(location, asked);
    if (url.protocol === 'https:' || url.protocol === asked.protocol) return url;
    throw new Fault(
      'upstream-unusable',
      `The registry ${access.registry} wants the bytes of a push over ${url.protocol}, which is refused`,
      { phase: 'push' },
    );
  };

  const ask = async (access: PushAccess, question: Omit<Question, 'what'>) => {
    const answer = await exchange(access, {
      what: `pushing to ${access.registry}/${access.repository}`,
      ...question,
      answers: [...(question.answers ?? []), ...refusals],
    }).catch(error => {
      throw inPush(access, error);
    });
    if (refusals.includes(answer.status)) throw await refused(access, answer);
    answer.body.destroy();
    return answer;
  };

  const begin = (access: PushAccess, query: string, signal?: AbortSignal) =>
    ask(access, {
      method: 'POST',
      missing: 'not-found',
      path: `blobs/uploads/${query}`,
      headers: { 'content-length': '0' },
      signal,
    });

  const send = async (
    access: PushAccess,
    { digest, size, open }: PushedBlob,
    begun: Answer,
    signal?: AbortSignal,
  ) => {
    const url = locationOf(access, begun);
    url.searchParams.set('digest', digest);
    const answer = await ask(access, {
      method: 'PUT',
      missing: 'upload-unknown',
      path: url,
      headers: { 'content-type': 'application/octet-stream', 'content-length': String(size) },
      body: async () => streamOf(await open()),
      headersMs: commitMs,
      isOnce: true,
      signal,
    });
    if (answer.status !== 201) throw odd(access, answer, 'to the bytes of a blob');
  };

  const put = async (
    access: PushAccess,
    blob: PushedBlob,
    signal?: AbortSignal,
  ): Promise<BlobPush> => {
    const begun = await beginByMount(access, blob.digest, signal);
    if (begun?.status === 201) return 'mounted';
    const target = pushingTo(access);
    await send(target, blob, begun ?? (await begin(target, '', signal)), signal);
    return 'sent';
  };

  /** Asks for a blob of `pushes.mountFrom`: the registry has it there then, or has begun an upload. */
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
      // The credentials for the one repository may have no right to the other; a push needs none.
      if (signal?.aborted) throw error;
      return undefined;
    }
  };

  const hasBlob = async (access: PushAccess, digest: Digest, signal?: AbortSignal) => {
    const answer = await ask(access, {
      method: 'HEAD',
      missing: 'blob-unknown',
      path: `blobs/${digest}`,
      headers: {},
      answers: [404],
      signal,
    });
    return answer.status === 200;
  };

  return {
    async check(access, signal) {
      const url = locationOf(access, await begin(access, '', signal));
      // Left alone it would end by itself, and not every registry knows how to end one.
      const end = { method: 'DELETE', path: url, headers: {}, isOnce: true, signal } as const;
      await ask(access, { ...end, missing: 'upload-unknown' }).catch(() => {});
    },

    async putBlob(access, blob, signal) {
      if (await hasBlob(pushingTo(access), blob.digest, signal)) return 'there';
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
      const answer = await ask(pushingTo(access), {
        method: 'PUT',
        missing: 'manifest-blob-unknown',
        path: `manifests/${reference}`,
        headers: { 'content-type': mediaType, 'content-length': String(bytes.length) },
        body: async () => bytes,
        headersMs: commitMs,
        signal,
      });
      if (answer.status >= 300) throw odd(access, answer, 'to a manifest');
      return { isReferrer: answer.headers.has('oci-subject') };
    },
  };
}

function odd({ registry }: Access, { status }: Answer, what: string): Fault {
  return new Fault(
    status < 500 ? 'upstream-unusable' : 'upstream',
    `The registry ${registry} answered ${status} ${what}: it may not take pushes`,
    {
      phase: 'push',
    },
  );
}

/** What a registry says about a push that it does not take: a tag that may not change, a quota, a manifest it does not know. */
async function refused({ registry, credentials }: Access, answer: Answer): Promise<Fault> {
  const words = await readErrorWords(answer, credentials);
  return new Fault(
    'bad-request',
    `The registry ${registry} refuses the push (${answer.status})${quoted(words)}`,
    { phase: 'push', ...causeOf(words) },
  );
}

/** The same failure, told as one of a push. */
function inPush({ registry, repository }: Access, error: unknown): unknown {
  if (!(error instanceof Fault)) return error;
  const { kind, phase, retryAfterSeconds, headers } = error;
  const missing: Partial<Record<FaultKind, string>> = {
    'not-found': `${registry}/${repository} does not exist, and ${registry} does not make it by itself: create it first`,
    'upload-unknown': `${registry} does not know the upload to ${repository} any more that it had begun: try again`,
    'manifest-blob-unknown': `${registry}/${repository} does not have all that the manifest names: try again`,
  };
  const message = missing[kind] ?? error.message;
  return new Fault(kind, message, {
    phase: phase === 'credentials' ? phase : 'push',
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    headers,
    cause: error.cause,
  });
}

/**
 * The bytes as a stream, which frees the source however it ends, also when nobody has read of it. They are
 * copied: what a source hands out is good until it is asked for more.
 */
function streamOf(source: ByteSource): Readable {
  const next = async () => {
    const chunk = await source.read();
    if (chunk === null) return null;
    const bytes = Buffer.from(chunk.bytes);
    chunk.release();
    return bytes;
  };
  return new Readable({
    read() {
      next().then(
        bytes => this.push(bytes),
        error => this.destroy(error),
      );
    },
    destroy(error, done) {
      source.destroy(error ?? undefined);
      done(error);
    },
  });
}
