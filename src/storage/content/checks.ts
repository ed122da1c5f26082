import type { Stats } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import { createFlowHash } from '../hashing/create-flow-hash.ts';
import type { SlabPool } from './buffers.ts';
import type { ByteSource } from './byte-source.ts';
import { checkedSource, DamagedContent } from './checked-source.ts';
import { fileSource } from './file-source.ts';

/**
 * Reads kept content so that nobody takes damaged content for whole: what was not found right lately is hashed
 * while it flows, and its last chunk waits for the digest.
 */
export interface Checks {
  /** Returns the bytes from `start` to `end`, both included. `read` rejects with {@link DamagedContent}. */
  source(digest: Digest, start: number, end: number): ByteSource;
  /** Reads it all, unless it was found right lately and is not in doubt. Simultaneous calls share one reading. */
  prove(digest: Digest, isInDoubt?: boolean): Promise<Proof>;
  /** Reads it all at the pace of the caller, for whom nobody else waits; `pace` is called with each number of bytes. */
  scrub(digest: Digest, pace: (bytes: number) => Promise<void>): Promise<Proof>;
  /** Reads it all, whatever is known of it, and leaves damaged content where it is. */
  examine(digest: Digest): Promise<Proof>;
  /** Notes content that was hashed on its way in. */
  note(digest: Digest): void;
  /** True when it was found right lately. */
  isFresh(digest: Digest): boolean;
}

export type Proof = 'right' | 'damaged' | 'absent';

export interface ChecksOptions {
  readonly pathOf: (digest: Digest) => string;
  /** Moves damaged content out of the way; `file` is the number of the file that was read. */
  readonly setAside: (digest: Digest, file: number) => Promise<void>;
  readonly slabs: SlabPool;
  /** How long a check counts (ms). After a restart everything is checked once more. */
  readonly trustMs: number;
}

const maxNoted = 100_000;

export function createChecks({ pathOf, setAside, slabs, trustMs }: ChecksOptions): Checks {
  const fresh = boundedCache<Digest, true>(maxNoted, { ttl: trustMs });
  const proofs = new Map<Digest, Promise<Proof>>();
  /** Content that a reader of all its bytes is checking as they flow. */
  const flowing = new Set<Digest>();

  const plain = (digest: Digest, start: number, end: number): ByteSource =>
    fileSource({ open: () => open(pathOf(digest), 'r'), start, end, slabs });

  const settle = async (digest: Digest, file: number, isRight: boolean): Promise<void> => {
    if (isRight) fresh.set(digest, true);
    else await setAside(digest, file);
  };

  const readAll = async (
    digest: Digest,
    pace?: (bytes: number) => Promise<void>,
    onDamage = setAside,
  ): Promise<Proof> => {
    const found = await statOf(pathOf(digest));
    if (!found) return 'absent';
    const { size, ino } = found;
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
      if (!(await statOf(pathOf(digest)))) return 'absent';
      throw error;
    } finally {
      source.destroy();
    }
    const isRight = (await hash.digest()) === hex;
    if (isRight) fresh.set(digest, true);
    else await onDamage(digest, ino);
    return isRight ? 'right' : 'damaged';
  };

  const prove = (digest: Digest, isInDoubt = false): Promise<Proof> => {
    if (isInDoubt) fresh.delete(digest);
    if (fresh.has(digest)) return Promise.resolve('right');
    const running = proofs.get(digest);
    if (running) return running;
    const proof = readAll(digest).finally(() => proofs.delete(digest));
    proofs.set(digest, proof);
    return proof;
  };

  const checkedWhole = (digest: Digest, { size, ino }: Stats): ByteSource => {
    flowing.add(digest);
    const source = checkedSource({
      source: plain(digest, 0, size - 1),
      size,
      ...splitDigest(digest),
      onVerdict: isRight => settle(digest, ino, isRight),
    });
    return {
      read: source.read,
      destroy(reason) {
        flowing.delete(digest);
        source.destroy(reason);
      },
    };
  };

  /** A part, or a whole that somebody is checking already: the last chunk waits for a proof beside it. */
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
    const found = await statOf(pathOf(digest));
    const isWhole = start === 0 && found?.size === end + 1;
    return isWhole && !flowing.has(digest)
      ? checkedWhole(digest, found)
      : provenBeside(digest, start, end);
  };

  return {
    source: (digest, start, end) => chosenLater(() => choose(digest, start, end)),
    prove,
    scrub: (digest, pace) => readAll(digest, pace),
    examine: digest => readAll(digest, undefined, async () => {}),
    note: digest => void fresh.set(digest, true),
    isFresh: digest => fresh.has(digest),
  };
}

/** A source that is chosen by its first read. */
function chosenLater(choose: () => Promise<ByteSource>): ByteSource {
  let chosen: Promise<ByteSource> | undefined;
  let stopped: Error | undefined;
  return {
    async read() {
      if (stopped) throw stopped;
      chosen ??= choose();
      const source = await chosen;
      // It was not there yet when it was destroyed.
      if (stopped) source.destroy(stopped);
      return source.read();
    },
    destroy(reason) {
      stopped ??= reason ?? new Error('the source was closed');
      chosen?.then(source => source.destroy(reason)).catch(() => {});
    },
  };
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
