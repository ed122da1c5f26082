import { createHash } from 'node:crypto';
import { Fault, isDiskFull } from '../../foundation/fault.ts';
import { unlessAborted } from '../../foundation/work.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource, Chunk } from '../../storage/content/byte-source.ts';
import { HaltedCopy, type Transfers, type WantedBlob } from './transfers.ts';

/**
 * Relays whole blobs that are not kept. The first client receives the bytes as they arrive. Other clients of the same
 * blob meanwhile share one more transfer, through a file that is removed with the last of them. So a blob has at most
 * two upstream transfers, and only one of them ever waits for a slow client. Where the registry redirects the first
 * client, each of the others gets its own redirect. When the disk fills up meanwhile,
 * each client gets its own transfer.
 */
export interface BlobRelays {
  /**
   * @param key the blob, its repository and the credentials of the request
   * @param direct opens the blob for one client alone
   */
  open(
    key: string,
    direct: () => Promise<FoundBlob>,
    wanted: Pick<WantedBlob, 'digest' | 'openWhole'>,
    size: number | undefined,
    signal: AbortSignal,
  ): Promise<FoundBlob>;
}

/** Source of a blob's bytes. `size` is the size of the whole blob. */
export type FoundBlob =
  | { readonly kind: 'redirect'; readonly location: URL }
  | {
      readonly kind: 'stream';
      readonly size: number;
      /** Source of the requested part. */
      readonly source: ByteSource;
      /** `stored`: from the content store or through it. `relayed`: from the registry as they arrive. */
      readonly delivery: 'stored' | 'relayed';
      /** True for bytes that need no check: stored ones, and those of a blob that was verified recently. */
      readonly isVerified: boolean;
      /** Called when the digest of the whole blob has been verified. */
      readonly onVerified?: () => void;
    };

/** The requested bytes, both ends included; the whole blob if absent. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Computes a range from the size of the blob, because a client may omit the end; undefined for the whole blob. */
export type RangeOf = (size: number) => ByteRange | undefined;

/** What became of the opening of a blob for its first client. `left`: the client left before. */
type Opened = FoundBlob['kind'] | 'left';

/** @param maxBytes disk space for all shared files; without space a client gets its own transfer */
export function createBlobRelays(transfers: Transfers, maxBytes: number): BlobRelays {
  const firstTransfers = new Map<string, Promise<Opened>>();
  const sharedBytes = new Map<string, number>();

  const isRoom = (key: string, size: number): boolean => {
    let total = size;
    for (const [other, bytes] of sharedBytes) {
      if (!transfers.has(other)) sharedBytes.delete(other);
      else if (other !== key) total += bytes;
    }
    return total <= maxBytes;
  };

  const openDirect = async (
    key: string,
    open: () => Promise<FoundBlob>,
    signal: AbortSignal,
  ): Promise<FoundBlob> => {
    const { promise, resolve, reject } = Promise.withResolvers<Opened>();
    // Maybe no other client waits for it.
    promise.catch(() => {});
    firstTransfers.set(key, promise);
    const end = () => {
      if (firstTransfers.get(key) === promise) firstTransfers.delete(key);
    };
    try {
      const blob = await open();
      if (blob.kind === 'redirect') end();
      resolve(blob.kind);
      return blob.kind === 'stream' ? { ...blob, source: whenDestroyed(blob.source, end) } : blob;
    } catch (error) {
      end();
      if (signal.aborted) resolve('left');
      else reject(error);
      throw error;
    }
  };

  const openShared: BlobRelays['open'] = async (key, open, wanted, size, signal) => {
    if (size === undefined || !isRoom(key, size)) return open();
    try {
      const joining = transfers.join(key, wanted, signal);
      sharedBytes.set(key, size);
      const reader = await joining;
      const { digest, openWhole } = wanted;
      const source = withoutCopy(reader.read(0, reader.size - 1), {
        digest,
        size: reader.size,
        openWhole: () => openWhole(signal),
      });
      return { kind: 'stream', size: reader.size, source, delivery: 'stored', isVerified: true };
    } catch (error) {
      if (isNoRoom(error)) return open();
      throw error;
    }
  };

  return {
    async open(key, open, wanted, size, signal) {
      // Of several clients that wait for one that leaves, the next one is the first.
      for (let first = firstTransfers.get(key); first; first = firstTransfers.get(key)) {
        const opened = await unlessAborted(first, signal);
        // An address is signed for one client, and may expire.
        if (opened === 'redirect') return open();
        if (opened === 'stream') return openShared(key, open, wanted, size, signal);
      }
      if (!transfers.has(key)) return openDirect(key, open, signal);
      return openShared(key, open, wanted, size, signal);
    },
  };
}

function isNoRoom(error: unknown): boolean {
  return isDiskFull(error) || (error instanceof Fault && error.kind === 'storage-full');
}

/** Returns the source; its reader destroys it in every case. */
function whenDestroyed(source: ByteSource, onDestroy: () => void): ByteSource {
  return {
    read: () => source.read(),
    destroy(reason) {
      onDestroy();
      source.destroy(reason);
    },
  };
}

/** How one client gets a blob without a copy on the disk. */
interface AloneOptions {
  readonly digest: Digest;
  /** Size of the whole blob in bytes. */
  readonly size: number;
  /** Opens the whole blob at its registry. */
  readonly openWhole: () => Promise<{ readonly source: ByteSource }>;
}

/**
 * Returns the bytes of a shared copy, from its beginning. When the disk has no room for the rest of the copy, the
 * registry sends the whole blob again, for this client alone: the client gets the bytes that it lacks.
 */
function withoutCopy(shared: ByteSource, options: AloneOptions): ByteSource {
  let source = shared;
  let passed = 0;
  let left: Error | undefined;

  const goOn = async (halted: HaltedCopy): Promise<void> => {
    const whole = await options.openWhole();
    if (left) {
      whole.source.destroy(left);
      throw left;
    }
    source = restOf(whole.source, passed, halted, options);
    shared.destroy();
  };

  return {
    async read() {
      let chunk: Chunk | null;
      try {
        chunk = await source.read();
      } catch (error) {
        if (!(error instanceof HaltedCopy) || left) throw error;
        await goOn(error);
        chunk = await source.read();
      }
      passed += chunk?.bytes.length ?? 0;
      return chunk;
    },
    destroy(reason = new Error('the source was closed')) {
      left ??= reason;
      source.destroy(reason);
    },
  };
}

/**
 * Returns the bytes after the first ones, which came from the copy. Hashes all bytes: the beginning must be that of the
 * copy, and the last chunk is held back until the digest is verified.
 */
function restOf(
  source: ByteSource,
  passed: number,
  halted: HaltedCopy,
  { digest, size }: AloneOptions,
): ByteSource {
  const { algorithm } = splitDigest(digest);
  const hash = createHash(algorithm);
  let position = 0;
  let held: Chunk | null = null;

  const verify = (expected: Digest, at: number): void => {
    if (position === at && `${algorithm}:${hash.copy().digest('hex')}` === expected) return;
    throw new Fault('upstream', `The registry returned different content for ${digest}`, {
      phase: 'upstream',
    });
  };
  const take = (bytes: Uint8Array): void => {
    hash.update(bytes);
    position += bytes.length;
  };
  const takeAll = (bytes: Uint8Array): void => {
    const common = Math.max(halted.size - position, 0);
    take(bytes.subarray(0, common));
    if (common > 0 && bytes.length >= common) verify(halted.digest, halted.size);
    take(bytes.subarray(common));
  };
  const next = async (): Promise<Chunk | null> => {
    for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
      const { bytes } = chunk;
      const release = () => chunk.release();
      const known = passed - position;
      try {
        takeAll(bytes);
      } catch (error) {
        release();
        throw error;
      }
      if (known < bytes.length) return { bytes: bytes.subarray(Math.max(known, 0)), release };
      release();
    }
    verify(digest, size);
    return null;
  };

  return {
    async read() {
      const chunk = held ?? (await next());
      held = null;
      if (chunk === null) return null;
      try {
        held = await next();
      } catch (error) {
        chunk.release();
        throw error;
      }
      return chunk;
    },
    destroy(reason) {
      held?.release();
      held = null;
      source.destroy(reason);
    },
  };
}
