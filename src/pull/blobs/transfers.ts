import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/content-store.ts';
import { Transfer, type TransferReader } from './transfer.ts';

/** Opens the whole upstream blob; the source resumes interrupted transfers. */
export type OpenWhole = (signal: AbortSignal) => Promise<{ size: number; source: ByteSource }>;

/** Transfers of blobs from their registries, each shared by all concurrent readers of the same blob. */
export interface Transfers {
  /** Joins the transfer with this key, or begins it. Rejects with a `Fault` (503) when its copy was removed meanwhile. */
  join(key: string, wanted: WantedBlob, signal: AbortSignal): Promise<TransferReader>;
  /** Returns true while a transfer with this key exists. */
  has(key: string): boolean;
}

export interface WantedBlob {
  readonly digest: Digest;
  readonly openWhole: OpenWhole;
  /** Called with the size when all of it is kept as content. If absent, the copy is removed with its last reader. */
  readonly onKept?: ((size: number) => Promise<void>) | undefined;
}

export function createTransfers(content: Pick<ContentStore, 'ingest'>): Transfers {
  const openings = new Map<string, Opening>();

  const begin = async (
    { digest, openWhole, onKept }: WantedBlob,
    stop: AbortController,
    forget: () => void,
  ): Promise<Transfer> => {
    const { size, source } = await openWhole(stop.signal);
    const isKept = onKept !== undefined;
    // Anybody's manifest may name any size. A slow transfer that reserved it would stop all writes of others.
    const ingest = await content
      .ingest(splitDigest(digest).algorithm, size, isKept)
      .catch(error => {
        source.destroy();
        throw error;
      });
    const onAbandoned = () => {
      // Frees the upstream connection; the next reader begins another transfer.
      forget();
      stop.abort();
      source.destroy(new Error('no reader is left'));
    };
    const transfer = new Transfer({
      ingest,
      digest,
      size,
      isKept,
      onAbandoned,
      onOver: forget,
    });
    transfer
      .run(source)
      .then(() => (transfer.isKept ? onKept?.(size) : undefined))
      .catch(() => {
        // The transfer reports the failure to each reader.
      })
      .finally(() => isKept && forget());
    return transfer;
  };

  return {
    async join(key, wanted, signal) {
      let opening = openings.get(key);
      if (!opening) {
        const stop = new AbortController();
        const forget = () => {
          if (openings.get(key) === own) openings.delete(key);
        };
        const pending = Promise.resolve().then(() => begin(wanted, stop, forget));
        const own = new Opening(pending, stop);
        stop.signal.addEventListener('abort', forget, { once: true });
        pending.catch(forget);
        openings.set(key, own);
        opening = own;
      }
      return (await opening.wait(signal)).join();
    },
    has: key => openings.has(key),
  };
}

/** A transfer that is about to begin; it is stopped when all waiting readers leave. */
class Opening {
  readonly #transfer: Promise<Transfer>;
  readonly #stop: AbortController;
  #waiting = 0;

  constructor(transfer: Promise<Transfer>, stop: AbortController) {
    this.#transfer = transfer;
    this.#stop = stop;
  }

  async wait(signal: AbortSignal): Promise<Transfer> {
    this.#waiting += 1;
    const leave = () => {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#stop.abort();
    };
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave, { once: true });
    try {
      return await this.#transfer;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }
}
