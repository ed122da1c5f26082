import { boundedCache } from '../../foundation/bounded-cache.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type Digest, type DigestAlgorithm, splitDigest } from '../../oci/digest.ts';
import { createFlowHash, type FlowHash } from '../hashing/index.ts';
import type { ByteSource, Chunk } from './byte-source.ts';

/**
 * Reads kept content so that no reader takes damaged content for complete. Content without a recent check is hashed
 * while it flows, and its last chunk waits for the digest.
 */
export interface Checks<V> {
  /** Returns the bytes from `start` to `end`, both included. For damaged content `read` rejects with {@link DamagedContent}. */
  source(digest: Digest, start: number, end: number): ByteSource;
  /** Reads all bytes, unless a recent check has succeeded and nothing casts doubt on it. Simultaneous calls share a read. */
  prove(digest: Digest, isInDoubt?: boolean): Promise<Proof>;
  /** Reads all bytes at the pace of the caller: `pace` is called with each number of bytes. */
  scrub(digest: Digest, pace: (bytes: number) => Promise<void>): Promise<Proof>;
  /**
   * Reads all bytes, also after a recent check, and leaves damaged content where it is.
   *
   * @param onDamage called with damaged content and the version of its bytes that was read
   */
  examine(digest: Digest, onDamage?: (digest: Digest, version: V) => Promise<void>): Promise<Proof>;
  /** Notes that content was hashed on its way in. */
  note(digest: Digest): void;
  /** Returns true after a recent successful check. */
  isFresh(digest: Digest): boolean;
}

export type Proof = 'right' | 'damaged' | 'absent';

/** Kept bytes. `version` tells them from bytes that were put in their place. */
interface KeptBytes<V> {
  readonly size: number;
  readonly version: V;
}

export interface ChecksOptions<V> {
  /**
   * Returns undefined for absent content.
   *
   * @param mayBeKnown a response of some minutes ago is enough. Content that was replaced meanwhile is not set aside by
   * mistake:
   *   its version is another one
   */
  readonly find: (digest: Digest, mayBeKnown?: boolean) => Promise<KeptBytes<V> | undefined>;
  /** Returns the bytes from `start` to `end`, both included, without a check. */
  readonly plain: (digest: Digest, start: number, end: number) => ByteSource;
  /** Moves damaged content out of the way; `version` is that of the bytes that were read. */
  readonly setAside: (digest: Digest, version: V) => Promise<void>;
  /** How long a check counts (ms). After a restart all content is checked again. */
  readonly trustMs: number;
}

const maxNoted = 100_000;

export function createChecks<V>({ find, plain, setAside, trustMs }: ChecksOptions<V>): Checks<V> {
  const fresh = boundedCache<Digest, true>(maxNoted, { ttl: trustMs });
  const proofs = new SingleFlight<Proof>();
  /** Content that is being checked while a reader reads all of it. */
  const flowing = new Set<Digest>();

  const settle = async (digest: Digest, version: V, isRight: boolean): Promise<void> => {
    if (isRight) fresh.set(digest, true);
    else await setAside(digest, version);
  };

  const readAll = async (
    digest: Digest,
    pace?: (bytes: number) => Promise<void>,
    onDamage = setAside,
  ): Promise<Proof> => {
    const found = await find(digest);
    if (!found) return 'absent';
    const { size, version } = found;
    const { algorithm, hex } = splitDigest(digest);
    const hash = createFlowHash(algorithm, size);
    const source = plain(digest, 0, size - 1);
    try {
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
        const { length } = chunk.bytes;
        await hash.update(chunk.bytes).finally(chunk.release);
        await pace?.(length);
      }
    } catch (error) {
      hash.abort();
      if (!(await find(digest))) return 'absent';
      throw error;
    } finally {
      source.destroy();
    }
    const isRight = (await hash.digest()) === hex;
    if (isRight) fresh.set(digest, true);
    else await onDamage(digest, version);
    return isRight ? 'right' : 'damaged';
  };

  const prove = async (digest: Digest, isInDoubt = false): Promise<Proof> => {
    if (isInDoubt) fresh.delete(digest);
    if (fresh.has(digest)) return 'right';
    return proofs.run(() => readAll(digest), { key: digest });
  };

  const checkedWhole = (digest: Digest, { size, version }: KeptBytes<V>): ByteSource => {
    flowing.add(digest);
    const source = checkedSource({
      source: plain(digest, 0, size - 1),
      size,
      ...splitDigest(digest),
      onVerdict: isRight => settle(digest, version, isRight),
    });
    return {
      read: source.read,
      destroy(reason) {
        flowing.delete(digest);
        source.destroy(reason);
      },
    };
  };

  /** Returns a part, or content that another reader checks already: its last chunk waits for a separate check. */
  const provenBeside = (digest: Digest, start: number, end: number): ByteSource => {
    const proof = prove(digest);
    proof.catch(() => {});
    const source = plain(digest, start, end);
    let left = end - start + 1;
    return {
      async read() {
        const chunk = await source.read();
        if (chunk === null) return null;
        left -= chunk.bytes.length;
        if (left > 0) return chunk;
        try {
          if ((await proof) !== 'right') throw new DamagedContent(digest);
          return chunk;
        } catch (error) {
          chunk.release();
          throw error;
        }
      },
      destroy: source.destroy.bind(source),
    };
  };

  const choose = async (digest: Digest, start: number, end: number): Promise<ByteSource> => {
    if (fresh.has(digest) || end < start) return plain(digest, start, end);
    const found = await find(digest, true);
    const isWhole = start === 0 && found?.size === end + 1;
    return isWhole && !flowing.has(digest)
      ? checkedWhole(digest, found)
      : provenBeside(digest, start, end);
  };

  return {
    source: (digest, start, end) => chosenLater(() => choose(digest, start, end)),
    prove,
    scrub: (digest, pace) => readAll(digest, pace),
    examine: (digest, onDamage = async () => {}) => readAll(digest, undefined, onDamage),
    note: digest => void fresh.set(digest, true),
    isFresh: digest => fresh.has(digest),
  };
}

/** Returns a source that is chosen at its first read. */
export function chosenLater(choose: () => Promise<ByteSource>): ByteSource {
  let chosen: Promise<ByteSource> | undefined;
  let stopped: Error | undefined;
  return {
    async read() {
      if (stopped) throw stopped;
      chosen ??= choose();
      const source = await chosen;
      // The source did not exist yet when `destroy` was called.
      if (stopped) source.destroy(stopped);
      return source.read();
    },
    destroy(reason) {
      stopped ??= reason ?? new Error('the source was closed');
      chosen?.then(source => source.destroy(reason)).catch(() => {});
    },
  };
}

interface CheckedSourceOptions {
  /** All bytes of the content. */
  readonly source: ByteSource;
  /** Bytes. */
  readonly size: number;
  readonly algorithm: DigestAlgorithm;
  /** The expected digest of the bytes. */
  readonly hex: string;
  /** Called with the result of the check; not called when the reader leaves before the end. */
  readonly onVerdict: (isRight: boolean) => Promise<void>;
}

/**
 * Returns the source, hashed on another thread while it flows. The last chunk is returned once the digest is
 * right. Otherwise `read` rejects, so that no reader takes wrong content for complete.
 */
function checkedSource(options: CheckedSourceOptions): ByteSource {
  const { source, size, algorithm, hex, onVerdict } = options;
  const hash: FlowHash = createFlowHash(algorithm, size);
  let passed = 0;

  /** Two users: the reader and the hash. */
  const shared = (chunk: Chunk): Chunk => {
    let users = 2;
    const leave = () => {
      users -= 1;
      if (users === 0) chunk.release();
    };
    hash.update(chunk.bytes).then(leave, leave);
    let isReleased = false;
    const release = () => {
      if (!isReleased) leave();
      isReleased = true;
    };
    return { bytes: chunk.bytes, release };
  };

  const prove = async (last: Chunk): Promise<Chunk> => {
    try {
      const [value] = await Promise.all([hash.update(last.bytes).then(() => hash.digest())]);
      await onVerdict(value === hex);
      if (value !== hex) throw new DamagedContent(`${algorithm}:${hex}`);
      return last;
    } catch (error) {
      last.release();
      throw error;
    }
  };

  return {
    async read() {
      const chunk = await source.read();
      if (chunk === null) return null;
      passed += chunk.bytes.length;
      return passed < size ? shared(chunk) : prove(chunk);
    },
    destroy(reason) {
      hash.abort();
      source.destroy(reason);
    },
  };
}

/** The bytes of kept content do not match its digest: the disk has changed them. */
class DamagedContent extends Error {
  override readonly name = 'DamagedContent';

  constructor(digest: string) {
    super(`The content ${digest} is damaged on the disk, and was set aside`);
  }
}
