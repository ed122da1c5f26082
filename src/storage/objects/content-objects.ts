import { randomUUID } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type Digest, type DigestAlgorithm, digestOf, splitDigest } from '../../oci/digest.ts';
import { type ByteSource, drain } from '../content/byte-source.ts';
import {
  type ContentStore,
  type ContentUses,
  chosenLater,
  createChecks,
  createContentPresence,
  type Ingest,
  type KeptDraft,
  type LocalFile,
  longestRemovalMs,
  removedMeanwhile,
  withoutRows,
} from '../content/index.ts';
import { createBlobLinks } from './blob-links.ts';
import type { Bucket } from './bucket.ts';
import { createLocalCopies, pinnedSource } from './local-copies.ts';
import { digestOfKey, keyOf, knownSizes, listFrom, readsOf } from './object-reads.ts';
import { keptParts, sendFile } from './object-writes.ts';
import { isAbsent } from './store-faults.ts';

export interface ContentObjectsOptions {
  /** A store on this machine, without rows: for content on its way in, and for programs that need files. */
  readonly local: ContentStore;
  /** Bytes of copies that `local` keeps. Absent: it removes none, because the server uses it as well. */
  readonly cacheBytes?: number;
  /** The rows of the content. Absent: the store has none, and nobody sweeps it. */
  readonly uses?: ContentUses;
  /** Clients read large content from the store themselves. */
  readonly hasLinks?: boolean;
  /** How long a check of content counts (ms). Default: a day. */
  readonly trustMs?: number;
  /** Called when content was found damaged and set aside. */
  readonly onDamaged?: (digest: Digest) => void;
}

const dayMs = 86_400_000;
// Each holds two parts of 8 MiB in memory.
const sendsAtOnce = 4;
// A copy takes one request up to this size. Larger damaged content is removed without one.
const largestCopy = 5 * 1024 ** 3;

/** Returns the content store in a bucket. What it has acknowledged is in the bucket. */
export async function openContentObjects(
  bucket: Bucket,
  options: ContentObjectsOptions,
): Promise<ContentStore> {
  const { local, uses = withoutRows, hasLinks = false, trustMs = dayMs, onDamaged } = options;
  const copies = createLocalCopies(local, options.cacheBytes ?? Number.POSITIVE_INFINITY);
  for await (const { digest, size } of local.list()) copies.add(digest, size);
  const sizes = knownSizes(bucket);
  const links = createBlobLinks(bucket);
  const parts = keptParts(bucket);
  const sends = new Semaphore({ limit: sendsAtOnce });
  // Whole blobs take minutes: chunks do not wait for them.
  const keeps = new Semaphore({ limit: sendsAtOnce });
  const resumes = new Semaphore({ limit: sendsAtOnce });

  const setAside = async (digest: Digest, etag: string): Promise<void> => {
    // Nothing can refer to it from now on. It is removed even when the mark cannot be written.
    const isMarked = await uses.condemn(digest).catch(() => false);
    const found = await sizes.ask(digest);
    // Another process may have put the right bytes in its place in the meantime.
    if (found?.etag === etag) {
      if (found.size <= largestCopy) {
        await bucket.copy(keyOf(digest), `damaged/${digest.replace(':', '-')}`);
      }
      // A copy takes minutes: others may have taken over the removal, and put the right bytes in place.
      if ((await sizes.ask(digest))?.etag === etag) await bucket.remove(keyOf(digest));
      sizes.forget(digest);
      onDamaged?.(digest);
    }
    if (isMarked) await uses.forget(digest).catch(() => {});
  };
  const discardVersion = async (digest: Digest, etag: string): Promise<void> => {
    const isSame = async () => (await sizes.ask(digest))?.etag === etag;
    await presence.remove(digest, async () => (await isSame()) && uses.condemn(digest));
  };
  const checks = createChecks<string>({ ...readsOf(bucket, sizes), setAside, trustMs });
  const presence = createContentPresence(uses, {
    size: async digest => (await sizes.ask(digest))?.size,
    async remove(digest) {
      const began = performance.now();
      const isThere = (await sizes.ask(digest)) !== undefined;
      await copies.drop(digest);
      if (performance.now() - began > longestRemovalMs) throw lateRemoval(digest);
      if (isThere) await bucket.remove(keyOf(digest));
      sizes.forget(digest);
      return isThere;
    },
  });

  /** Notes the arrival in the rows, and makes sure that no removal came between the bytes and that note. */
  const confirm = async (digest: Digest, arrive: () => Promise<void>): Promise<void> => {
    try {
      await arrive();
    } finally {
      sizes.forget(digest);
    }
    // Only now: the row may be that of another caller, after a removal that took these bytes.
    if (!(await sizes.ask(digest))) throw removedMeanwhile(digest);
  };
  /** Sends a local copy to the bucket, unless the same content is there and was checked. */
  const send = (digest: Digest, size: number): Promise<void> =>
    sends.run(async () => {
      if (checks.isFresh(digest) && (await sizes.ask(digest))?.size === size) return;
      const file = await local.lease(digest);
      if (!file) throw brokenCopy(digest);
      await sendFile(bucket, keyOf(digest), file.path, size, digest);
      // Its digest was computed from the bytes that were sent.
      checks.note(digest);
    });
  const keepDocument = async (digest: Digest, bytes: Buffer): Promise<void> => {
    const arrive = await presence.enter(digest, bytes.length);
    await bucket.put(keyOf(digest), bytes);
    checks.note(digest);
    await confirm(digest, arrive);
  };
  const isLocal = async (digest: Digest): Promise<boolean> => {
    if (!copies.has(digest)) return false;
    if ((await local.size(digest)) !== undefined) return true;
    copies.forget(digest);
    return false;
  };
  /** Makes a local copy; undefined when the content is absent or damaged. */
  const bring = async (digest: Digest): Promise<LocalFile | undefined> => {
    const found = await sizes.ask(digest);
    if (!found) return undefined;
    const ingest = await local.ingest(splitDigest(digest).algorithm, found.size);
    try {
      const source = checks.source(digest, 0, found.size - 1);
      await drain(source, bytes => ingest.write(bytes));
      if (ingest.digest() !== digest) {
        await checks.prove(digest, true);
        return undefined;
      }
      await ingest.commit();
      copies.add(digest, found.size);
      return await local.lease(digest);
    } catch (error) {
      if ((error as Error).name === 'DamagedContent' || isAbsent((error as Error).cause)) return;
      throw error;
    } finally {
      await ingest.abort();
    }
  };
  /** @param begun what a former process has kept of it */
  const objectIngest = (draft: Ingest, algorithm: DigestAlgorithm, begun?: KeptDraft): Ingest => {
    // Held until the content is in the bucket, for as many attempts as it takes.
    let pin: AsyncDisposable | undefined;
    let kept = begun;
    const leave = async (): Promise<void> => {
      await draft.abort();
      await pin?.[Symbol.asyncDispose]();
    };
    return {
      openToRead: draft.openToRead,
      get size() {
        return draft.size;
      },
      write: draft.write,
      digest: draft.digest,
      hashWith: draft.hashWith,
      async keep() {
        const { draft: name, size: start } = kept ?? { draft: randomUUID(), size: 0 };
        const { size } = draft;
        if (size > start) {
          const range = { start, end: size - 1, available: async () => size, onClose() {} };
          await keeps.run(async () => {
            const reader = await draft.openToRead();
            await parts.add(name, start, size - start, reader.read(range));
          });
        }
        kept = { draft: name, algorithm, size };
        return kept;
      },
      leave,
      async abort() {
        await leave();
        // Takes long for many of them. A sweep removes what stays.
        if (kept) void parts.remove(kept.draft).catch(() => {});
      },
      async commit() {
        const { size } = draft;
        const digest = draft.digest();
        pin ??= copies.pin(digest);
        const arrive = await presence.enter(digest, size);
        await draft.commit();
        copies.add(digest, size);
        await send(digest, size);
        await confirm(digest, arrive);
        await pin[Symbol.asyncDispose]();
        return digest;
      },
    };
  };
  const bringing = new SingleFlight<LocalFile | undefined>();

  return {
    size: async digest => (await sizes.find(digest))?.size,

    async read(digest) {
      if (await isLocal(digest)) {
        const copy = await local.read(digest);
        if (copy) return copy;
      }
      const bytes = await bucket.read(keyOf(digest));
      if (bytes && digestOf(bytes, splitDigest(digest).algorithm) === digest) return bytes;
      if (bytes) await checks.prove(digest, true);
      else sizes.forget(digest);
      return undefined;
    },

    open(digest, start, end): ByteSource {
      return chosenLater(async () => {
        // Also counts as a use of the copy.
        const pin = copies.pin(digest);
        // Only a check of the object allows links to it.
        const isForCheck = hasLinks && !checks.isFresh(digest);
        if (!isForCheck && (await isLocal(digest))) {
          return pinnedSource(local.open(digest, start, end), pin);
        }
        await pin[Symbol.asyncDispose]();
        return checks.source(digest, start, end);
      });
    },
    hasLinks,
    link: async (digest, size) =>
      hasLinks && checks.isFresh(digest) ? links.link(digest, size) : undefined,
    prove: digest => checks.prove(digest),
    scrub: checks.scrub,
    examine: digest => checks.examine(digest),
    isFresh: checks.isFresh,

    async lease(digest) {
      const pin = copies.pin(digest);
      try {
        const here = (await isLocal(digest)) ? await local.lease(digest) : undefined;
        const file = here ?? (await bringing.run(() => bring(digest), { key: digest }));
        if (file)
          return { path: file.path, [Symbol.asyncDispose]: () => pin[Symbol.asyncDispose]() };
      } catch (error) {
        await pin[Symbol.asyncDispose]();
        throw error;
      }
      await pin[Symbol.asyncDispose]();
      return undefined;
    },

    async write(digest, bytes) {
      await keepDocument(digest, bytes);
    },

    async settle() {},

    async close() {
      await local.close();
      bucket.close();
    },

    ingest: async (algorithm = 'sha256', expected = 0, isReserved = true) =>
      objectIngest(await local.ingest(algorithm, expected, isReserved), algorithm),

    resume: kept =>
      resumes.run(async () => {
        const draft = await local.ingest(kept.algorithm, kept.size);
        let isWhole = false;
        try {
          for await (const bytes of parts.read(kept)) await draft.write(bytes);
          isWhole = draft.size === kept.size;
        } finally {
          if (!isWhole) await draft.abort();
        }
        return isWhole ? objectIngest(draft, kept.algorithm, kept) : undefined;
      }),

    drop: ({ draft }) => parts.remove(draft),

    scratch: local.scratch,
    claim: presence.claim,
    remove: presence.remove,
    discard: digest => presence.remove(digest, () => uses.condemn(digest)),
    discardDamaged: digest => checks.examine(digest, discardVersion),

    async *list(begin = 0) {
      for await (const { key, size } of listFrom(bucket, begin)) {
        const digest = digestOfKey(key);
        if (digest) yield { digest, size };
      }
    },

    // A sweep removes what is left in the bucket of resumable content: a start would wait for it.
    removeLeftovers: async since =>
      (await local.removeLeftovers(since)) + (await bucket.endUploads(since)),

    endTransfers: bucket.endUploads,
    removeStrayDrafts: parts.removeOthers,

    async removeDamaged(before, signal) {
      let removed = await local.removeDamaged(before, signal);
      for await (const { key, modified } of bucket.list('damaged/')) {
        signal?.throwIfAborted();
        if (modified >= before) continue;
        await bucket.remove(key);
        removed += 1;
      }
      return removed;
    },
  };
}

/** Another process takes the removal over. */
function lateRemoval(digest: Digest): Fault {
  return new Fault('unavailable', `The object store takes too long to remove ${digest}`, {
    phase: 'store',
  });
}

function brokenCopy(digest: Digest): Fault {
  return new Fault(
    'unavailable',
    `The disk lost ${digest} on its way to the store: send it again`,
    {
      phase: 'store',
      retryAfterSeconds: 1,
    },
  );
}
