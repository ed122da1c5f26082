import type { FileHandle } from 'node:fs/promises';
import type { ByteSource } from '../content/byte-source.ts';
import type { ContentStore } from '../content/content-store.ts';
import type { Ingest } from '../content/ingest.ts';
import { Fault } from '../fault.ts';
import { type Digest, splitDigest } from '../oci/digest.ts';
import type { CachedBlobStore } from '../store/cached-blobs.ts';
import type { HostedStore } from '../store/hosted.ts';
import type { Access } from '../upstream/authorizer.ts';

/** Opens the upstream blob whole; the source mends its own breaks. */
export type OpenWhole = (signal: AbortSignal) => Promise<{ size: number; source: ByteSource }>;

/** Keeps copies of upstream blobs, up to a size; one transfer fills the copy and feeds all who wait for it. */
export interface BlobCache {
  /** Joins the transfer of a blob, or begins it. Bytes come as they arrive; the last ones only once the digest is right. */
  join(
    place: BlobPlace,
    digest: Digest,
    openWhole: OpenWhole,
    signal: AbortSignal,
  ): Promise<CacheReader>;
  /** True for a copy of what this repository, or any of this registry, has shown. */
  isFrom(digest: Digest, place: BlobPlace | string): boolean;
  /** Notes that a repository has what is copied here. */
  shownBy(digest: Digest, place: BlobPlace): void;
  /** Notes that a cached copy was used. */
  used(digest: Digest): void;
}

/** A repository. */
export type BlobPlace = Pick<Access, 'registry' | 'repository'>;

export interface CacheReader {
  readonly size: number;
  /** The bytes from `start` to `end`, both included. Destroying it leaves the transfer. */
  read(start: number, end: number): ByteSource;
  /** Leaves without having read. */
  leave(): void;
}

export interface BlobCacheDeps {
  readonly content: ContentStore;
  readonly cachedBlobs: CachedBlobStore;
  readonly hosted: HostedStore;
  /** Bytes; the least recently used copies beyond it are removed. */
  readonly maxBytes: number;
}

const chunkSize = 512 * 1024;

export function createBlobCache({
  content,
  cachedBlobs,
  hosted,
  maxBytes,
}: BlobCacheDeps): BlobCache {
  const fills = new Map<string, Opening>();

  // Together, so that no push can make it a hosted blob in between.
  const drop = (digest: Digest): void =>
    hosted.atomically(() => {
      cachedBlobs.forget(digest);
      if (hosted.holderCount(digest) === 0) {
        content.removeUnused(digest, Number.POSITIVE_INFINITY);
      }
    });

  const sweep = (): void => {
    let total = cachedBlobs.total();
    while (total > maxBytes) {
      const victim = cachedBlobs.oldest();
      if (!victim) return;
      drop(victim.digest);
      total -= victim.size;
    }
  };

  const begin = async (
    place: BlobPlace,
    digest: Digest,
    openWhole: OpenWhole,
    stop: AbortController,
  ): Promise<Fill> => {
    const key = keyOf(place, digest);
    const { size, source } = await openWhole(stop.signal);
    const ingest = await content.ingest(splitDigest(digest).algorithm).catch(error => {
      source.destroy();
      throw error;
    });
    const fill = new Fill(ingest, size, () => {
      // Nobody wants it any more: free the upstream connection, and let the next one begin anew.
      if (fills.get(key) === opening) fills.delete(key);
      stop.abort();
      source.destroy(new Error('no reader is left'));
    });
    const opening = fills.get(key);
    fill
      .run(source, digest)
      .then(() => {
        const places = [place.registry, nameOf(place)];
        cachedBlobs.enter(digest, size, places, Date.now());
        sweep();
      })
      .catch(() => {
        // Each reader hears of the failure from the fill.
      })
      .finally(() => {
        if (fills.get(key) === opening) fills.delete(key);
      });
    return fill;
  };

  return {
    async join(place, digest, openWhole, signal) {
      const key = keyOf(place, digest);
      let opening = fills.get(key);
      if (!opening) {
        const stop = new AbortController();
        // Entered before it runs, so that `begin` finds itself.
        const pending = Promise.resolve().then(() => begin(place, digest, openWhole, stop));
        const own = new Opening(pending, stop);
        const forget = () => {
          if (fills.get(key) === own) fills.delete(key);
        };
        stop.signal.addEventListener('abort', forget, { once: true });
        pending.catch(forget);
        fills.set(key, own);
        opening = own;
      }
      return (await opening.wait(signal)).join();
    },
    isFrom: (digest, place) =>
      cachedBlobs.isFrom(digest, typeof place === 'string' ? place : nameOf(place)),
    shownBy: (digest, place) => cachedBlobs.addSource(digest, nameOf(place)),
    used(digest) {
      cachedBlobs.touch(digest, Date.now());
    },
  };
}

function nameOf({ registry, repository }: BlobPlace): string {
  return `${registry}/${repository}`;
}

function keyOf(place: BlobPlace, digest: Digest): string {
  return `${nameOf(place)} ${digest}`;
}

/** A transfer that is about to begin; when all who wait for it leave, it is stopped. */
class Opening {
  readonly #fill: Promise<Fill>;
  readonly #stop: AbortController;
  #waiting = 0;

  constructor(fill: Promise<Fill>, stop: AbortController) {
    this.#fill = fill;
    this.#stop = stop;
  }

  async wait(signal: AbortSignal): Promise<Fill> {
    this.#waiting += 1;
    const leave = () => {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#stop.abort();
    };
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    try {
      return await this.#fill;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }
}

/** One transfer into the cache and its readers. */
class Fill {
  readonly #ingest: Ingest;
  readonly #size: number;
  readonly #abandon: () => void;
  #readers = 0;
  #isWhole = false;
  #failure: Error | undefined;
  #progress = Promise.withResolvers<void>();

  constructor(ingest: Ingest, size: number, abandon: () => void) {
    this.#ingest = ingest;
    this.#size = size;
    this.#abandon = abandon;
  }

  async run(source: ByteSource, digest: Digest): Promise<void> {
    try {
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
        await this.#ingest.write(chunk.bytes);
        chunk.release();
        this.#announce();
      }
      const found = this.#ingest.digest();
      if (found !== digest || this.#ingest.size !== this.#size) {
        throw new Fault('upstream', `The registry sent other bytes than those of ${digest}`, {
          phase: 'upstream',
        });
      }
      await this.#ingest.commit();
      this.#isWhole = true;
    } catch (error) {
      source.destroy();
      this.#failure = error instanceof Error ? error : new Error(String(error));
      await this.#ingest.abort();
      throw error;
    } finally {
      this.#announce();
    }
  }

  join(): CacheReader {
    this.#readers += 1;
    let isIn = true;
    const leave = () => {
      if (!isIn) return;
      isIn = false;
      this.#readers -= 1;
      if (this.#readers === 0 && !this.#isWhole && !this.#failure) this.#abandon();
    };
    const file = this.#ingest.openToRead();
    file.catch(() => {});
    return {
      size: this.#size,
      leave: () => {
        leave();
        file.then(handle => handle.close()).catch(() => {});
      },
      read: (start, end) => this.#source(file, start, end, leave),
    };
  }

  #source(file: Promise<FileHandle>, start: number, end: number, leave: () => void): ByteSource {
    const buffer = Buffer.allocUnsafe(Math.min(chunkSize, end - start + 1));
    let position = start;
    let isClosed = false;
    let lent: Promise<void> = Promise.resolve();
    const close = () => {
      if (isClosed) return;
      isClosed = true;
      leave();
      file.then(handle => handle.close()).catch(() => {});
    };
    return {
      read: async () => {
        // The last chunk may still be on loan when its reader makes sure that nothing follows.
        if (!isClosed && position <= end) await lent;
        if (isClosed || position > end) {
          close();
          return null;
        }
        const available = await this.#waitFor(position, end);
        const length = Math.min(buffer.length, available - position);
        const { bytesRead } = await (await file).read(buffer, 0, length, position);
        if (bytesRead === 0) throw new Error('the copy is shorter than it should be');
        position += bytesRead;
        const { promise, resolve } = Promise.withResolvers<void>();
        lent = promise;
        return { bytes: buffer.subarray(0, bytesRead), release: resolve };
      },
      destroy: close,
    };
  }

  /** Waits for bytes behind `position`; returns up to where they may be given out. */
  async #waitFor(position: number, end: number): Promise<number> {
    for (;;) {
      if (this.#isWhole) return end + 1;
      // The last byte waits for the digest, so that nobody takes a broken blob for whole.
      const available = Math.min(this.#ingest.size, this.#size - 1, end + 1);
      if (available > position) return available;
      if (this.#failure) throw this.#failure;
      await this.#progress.promise;
    }
  }

  #announce(): void {
    this.#progress.resolve();
    this.#progress = Promise.withResolvers<void>();
  }
}
