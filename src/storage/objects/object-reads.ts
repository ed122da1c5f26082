import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { type Digest, parseDigest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource, Chunk } from '../content/byte-source.ts';
import type { ChecksOptions } from '../content/index.ts';
import type { Bucket, FoundObject, ListedObject } from './bucket.ts';
import { faultOf, isAbsent } from './store-faults.ts';

/** How {@link Checks} read a bucket. The version of an object is its ETag. */
export function readsOf(
  bucket: Pick<Bucket, 'fetch'>,
  sizes: KnownSizes,
): Pick<ChecksOptions<string>, 'find' | 'plain'> {
  return {
    async find(digest, mayBeKnown) {
      const found = await (mayBeKnown ? sizes.find(digest) : sizes.ask(digest));
      return found && { size: found.size, version: found.etag };
    },
    plain: (digest, start, end) =>
      objectSource(
        async (from, to, signal) => {
          try {
            return await bucket.fetch(keyOf(digest), from, to, signal);
          } catch (error) {
            if (isAbsent(error)) sizes.forget(digest);
            throw error;
          }
        },
        start,
        end,
      ),
  };
}

/** Begins to read an object at a position, up to and including the last byte wanted. */
type Fetch = (start: number, end: number, signal: AbortSignal) => Promise<Readable>;

// A store that sends nothing for this long (ms), while a reader waits, has lost the connection.
const silenceMs = 30_000;
// Until a response ends (ms), after its last byte.
const endMs = 5000;
const attempts = 4;
const firstPauseMs = 100;
const mostLent = 2;

/**
 * Returns a range of an object as a source. It reads on only when its reader does, so that a slow reader holds the
 * connection and two chunks. Where a response breaks off, it goes on with another request from that byte.
 */
function objectSource(fetch: Fetch, start: number, end: number): ByteSource {
  return new ObjectSource(fetch, start, end);
}

class ObjectSource implements ByteSource {
  readonly #fetch: Fetch;
  readonly #start: number;
  readonly #end: number;
  readonly #stop = new AbortController();
  #position: number;
  #body: Readable | undefined;
  #chunks: AsyncIterator<Buffer> | undefined;
  #lent = 0;
  #released: (() => void) | undefined;
  #failure: Error | undefined;

  constructor(fetch: Fetch, start: number, end: number) {
    this.#fetch = fetch;
    this.#start = start;
    this.#position = start;
    this.#end = end;
  }

  async read(): Promise<Chunk | null> {
    while (this.#lent >= mostLent && !this.#failure) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#released = resolve;
      await promise;
    }
    if (this.#failure) throw this.#failure;
    if (this.#position > this.#end) {
      this.destroy();
      return null;
    }
    return this.#lend(await this.#next());
  }

  destroy(reason = new Error('the source was closed')): void {
    if (this.#failure) return;
    this.#failure = reason;
    this.#stop.abort();
    if (this.#position > this.#end) this.#finish();
    else this.#body?.destroy();
    this.#released?.();
  }

  /** Reads the end of a response whose bytes are all here: its connection then takes the next request. */
  #finish(): void {
    const [body, chunks] = [this.#body, this.#chunks];
    if (!body || !chunks) return;
    const destroy = () => void body.destroy();
    const timer = setTimeout(destroy, endMs);
    chunks
      .next()
      .then(next => next.done || destroy(), destroy)
      .finally(() => clearTimeout(timer));
  }

  /** Returns the next bytes, from another request when one has broken off. */
  async #next(): Promise<Buffer> {
    for (let attempt = 1; ; attempt += 1) {
      const hadBody = this.#body !== undefined;
      try {
        const bytes = await this.#receive();
        if (this.#failure) throw this.#failure;
        this.#position += bytes.length;
        return bytes;
      } catch (error) {
        const hadResponse = hadBody || this.#body !== undefined;
        this.#body?.destroy();
        this.#body = undefined;
        if (this.#failure) throw this.#failure;
        // A request that got no response was repeated already. It is asked again only for a reader that has some bytes.
        const isFinal = !hadResponse && this.#position === this.#start;
        if (isFinal || isAbsent(error) || attempt === attempts) throw faultOf(error);
        await sleep(firstPauseMs * 2 ** attempt, undefined, { signal: this.#stop.signal }).catch(
          () => {},
        );
        if (this.#failure) throw this.#failure;
      }
    }
  }

  async #receive(): Promise<Buffer> {
    if (!this.#body) {
      this.#body = await this.#fetch(this.#position, this.#end, this.#stop.signal);
      // The iterator reports errors; one that comes after the last read must not end the process.
      this.#body.on('error', () => {});
      this.#chunks = this.#body[Symbol.asyncIterator]();
    }
    const body = this.#body;
    const timer = setTimeout(() => body.destroy(new Error('silence')), silenceMs);
    try {
      const next = await this.#chunks?.next();
      if (!next || next.done) throw new Error('the response is shorter than it should be');
      return next.value.subarray(0, this.#end - this.#position + 1);
    } finally {
      clearTimeout(timer);
    }
  }

  #lend(bytes: Buffer): Chunk {
    let isLent = true;
    this.#lent += 1;
    const release = () => {
      if (!isLent) return;
      isLent = false;
      this.#lent -= 1;
      this.#released?.();
    };
    return { bytes, release };
  }
}

/** Returns the key of content below the prefix. */
export function keyOf(digest: Digest): string {
  const { algorithm, hex } = splitDigest(digest);
  return `blobs/${algorithm}/${hex}`;
}

/** Returns the digest in a key; undefined for a key of something else. */
export function digestOfKey(key: string): Digest | undefined {
  const [, algorithm, hex] = /^blobs\/(sha256|sha512)\/([0-9a-f]+)$/.exec(key) ?? [];
  if (!algorithm) return undefined;
  try {
    return parseDigest(`${algorithm}:${hex}`);
  } catch {
    return undefined;
  }
}

/** Lists all content from a position (0 to 1) of each algorithm on, and then what is before it. */
export async function* listFrom(bucket: Bucket, begin: number): AsyncIterable<ListedObject> {
  for (const algorithm of ['sha256', 'sha512']) {
    const below = `blobs/${algorithm}/`;
    const first =
      below +
      Math.floor(begin * 0xffff)
        .toString(16)
        .padStart(4, '0');
    if (begin === 0) {
      yield* bucket.list(below);
      continue;
    }
    yield* bucket.list(below, first);
    for await (const object of bucket.list(below)) {
      if (object.key > first) break;
      yield object;
    }
  }
}

/** Sizes of content, so that a pull of content that is often pulled asks the store nothing. */
interface KnownSizes {
  /** Returns what is known, or asks the store. */
  find(digest: Digest): Promise<FoundObject | undefined>;
  /** Asks the store. */
  ask(digest: Digest): Promise<FoundObject | undefined>;
  forget(digest: Digest): void;
}

const mostKnownSizes = 100_000;
// Content never changes, but a command may remove it.
const knownMs = 300_000;

export function knownSizes(bucket: Bucket): KnownSizes {
  const known = boundedCache<Digest, FoundObject>(mostKnownSizes, { ttl: knownMs });
  const ask = async (digest: Digest) => {
    const found = await bucket.head(keyOf(digest));
    if (found) known.set(digest, found);
    else known.delete(digest);
    return found;
  };
  return {
    find: async digest => known.get(digest) ?? ask(digest),
    ask,
    forget: digest => void known.delete(digest),
  };
}
