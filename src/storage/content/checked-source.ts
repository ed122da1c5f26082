import type { DigestAlgorithm } from '../../oci/digest.ts';
import { createFlowHash, type FlowHash } from '../hashing/index.ts';
import type { ByteSource, Chunk } from './byte-source.ts';

export interface CheckedSourceOptions {
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
export function checkedSource(options: CheckedSourceOptions): ByteSource {
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
export class DamagedContent extends Error {
  override readonly name = 'DamagedContent';

  constructor(digest: string) {
    super(`The content ${digest} is damaged on the disk, and was set aside`);
  }
}
