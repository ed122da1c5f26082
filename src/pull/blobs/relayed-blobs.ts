import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import {
  type Access,
  checkNotEmpty,
  type OpenedBlob,
  type RegistryClient,
  resumingSource,
} from '../../upstream/index.ts';
import type { BlobRelays, ByteRange, FoundBlob, RangeOf } from './blob-relays.ts';
import type { OpenWhole } from './transfers.ts';
import { createVerifiedBlobs } from './verified-blobs.ts';

/** A blob of another registry that a client may have. */
export interface RelayedBlob {
  readonly access: Access;
  readonly digest: Digest;
  /** Bytes; undefined for a blob that no manifest names. */
  readonly size: number | undefined;
}

/** What becomes of a redirect of the registry: this server follows it, or hands it on to the client. */
export type Redirects = 'follow' | 'handOn';

/** Blobs of other registries, passed on as they arrive. */
export interface RelayedBlobs {
  /** Returns the blob, or the requested part. The caller reads the source to its end or destroys it. */
  open(
    blob: RelayedBlob,
    rangeOf: RangeOf | undefined,
    redirects: Redirects,
    signal: AbortSignal,
  ): Promise<FoundBlob>;
  /** Returns the size that the registry reports. Throws a {@link Fault} if it is not that of the manifest. */
  size(blob: RelayedBlob, signal: AbortSignal): Promise<number>;
  /** Opens all of a blob, to keep a copy. */
  opening(blob: RelayedBlob): OpenWhole;
}

export interface RelayedBlobsDeps {
  readonly registry: Pick<RegistryClient, 'openBlob' | 'headBlob'>;
  readonly relays: BlobRelays;
  /** Longest wait for the next bytes of a blob (ms). */
  readonly stallMs: number;
  /** How long a blob that was verified whole is relayed without hashing it (ms); 0: never. */
  readonly trustMs: number;
}

export function createRelayedBlobs(deps: RelayedBlobsDeps): RelayedBlobs {
  const { registry, relays, stallMs } = deps;
  const verified = createVerifiedBlobs(deps.trustMs);

  const sizeAt = async (
    { access, digest, size: expected }: RelayedBlob,
    signal: AbortSignal,
  ): Promise<number> => {
    const size = await registry.headBlob(access, digest, signal);
    if (size !== undefined && size !== (expected ?? size)) throw wrongSize(digest, size, expected);
    if (size !== undefined) return size;
    throw new Fault('upstream', `The registry does not report the size of ${digest}`, {
      phase: 'upstream',
    });
  };

  /** Returns the bytes from `start` to `end` as they arrive from the registry; resumes an interrupted transfer. */
  const relayed = async (
    blob: RelayedBlob,
    range: ByteRange | undefined,
    redirects: Redirects,
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    const { access, digest, size } = blob;
    let total = size;
    const openAt = async (offset: number, how: Redirects) =>
      registry.openBlob(access, digest, {
        offset,
        size: total,
        ...(range && range.end + 1 !== size ? { last: range.end } : {}),
        redirects: how,
        signal,
      });
    const start = range?.start ?? 0;
    const opened = await openAt(start, redirects);
    if (opened.kind === 'redirect') return opened;
    const { response, offset } = opened;
    total = await totalOf(blob, opened, signal);
    const source = resumingSource({
      first: { source: response.body, offset },
      start,
      end: range?.end ?? total - 1,
      reopen: async from => {
        const again = await openAt(from, 'follow');
        if (again.kind === 'redirect') throw notFollowed();
        return { source: again.response.body, offset: again.offset };
      },
      stallMs,
    });
    return {
      kind: 'stream',
      size: total,
      source,
      delivery: 'relayed',
      isVerified: verified.has(access.registry, digest),
      onVerified: () => verified.add(access.registry, digest),
    };
  };

  /** Returns the size of the whole blob, with a HEAD request if neither response nor manifest has it. */
  const totalOf = async (
    blob: RelayedBlob,
    { response, total }: Extract<OpenedBlob, { kind: 'bytes' }>,
    signal: AbortSignal,
  ): Promise<number> => {
    const { access, digest } = blob;
    try {
      const size = total ?? blob.size ?? (await sizeAt(blob, signal));
      checkNotEmpty({ registry: access.registry, digest }, size);
      return size;
    } catch (error) {
      response.body.destroy();
      throw error;
    }
  };

  const opening =
    (blob: RelayedBlob): OpenWhole =>
    async stop => {
      const found = await relayed(blob, undefined, 'follow', stop);
      if (found.kind !== 'stream') throw notFollowed();
      return found;
    };

  return {
    size: sizeAt,
    opening,

    async open(blob, rangeOf, redirects, signal) {
      const size = blob.size ?? (rangeOf ? await sizeAt(blob, signal) : undefined);
      const sized = { ...blob, size };
      const range = size === undefined ? undefined : rangeOf?.(size);
      const direct = () => relayed(sized, range, redirects, signal);
      if (range) return direct();
      const { access, digest } = blob;
      const { registry: host, repository, credentials } = access;
      // A manifest may name the wrong size. The failure concerns only the clients of that manifest.
      const key = `relay ${host}/${repository} ${digest} ${size} ${credentialKey(credentials)}`;
      return relays.open(key, direct, { digest, openWhole: opening(sized) }, size, signal);
    },
  };
}

/** The registry has another number of bytes than the manifest names. */
export function wrongSize(digest: Digest, size: number, expected: number | undefined): Fault {
  return new Fault(
    'upstream',
    `The registry has ${size} bytes for the blob ${digest}, not ${expected} as its manifest says`,
    { phase: 'upstream' },
  );
}

function notFollowed(): Error {
  return new Error('a redirect was not followed');
}
