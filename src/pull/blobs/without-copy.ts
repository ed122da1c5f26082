import { createHash } from 'node:crypto';
import { Fault } from '../../foundation/fault.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource, Chunk } from '../../storage/content/byte-source.ts';
import { HaltedCopy } from './transfer.ts';

/** How one client gets a blob without a copy on the disk. */
export interface AloneOptions {
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
export function withoutCopy(shared: ByteSource, options: AloneOptions): ByteSource {
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
