import { SingleFlight } from '../../foundation/single-flight.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/index.ts';
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
  const openings = new SingleFlight<Transfer>();
  const inFlight = new Map<string, Transfer>();

  const begin = async (
    key: string,
    { digest, openWhole, onKept }: WantedBlob,
    signal: AbortSignal,
  ): Promise<Transfer> => {
    const stop = new AbortController();
    const { size, source } = await openWhole(AbortSignal.any([signal, stop.signal]));
    const isKept = onKept !== undefined;
    // Anybody's manifest may name any size. A slow transfer that reserved it would stop all writes of others.
    const ingest = await content
      .ingest(splitDigest(digest).algorithm, size, isKept)
      .catch(error => {
        source.destroy();
        throw error;
      });
    const forget = () => {
      if (inFlight.get(key) === transfer) inFlight.delete(key);
    };
    const onAbandoned = () => {
      // Frees the upstream connection; the next reader begins another transfer.
      forget();
      stop.abort();
      source.destroy(new Error('no reader is left'));
    };
    const transfer = new Transfer({ ingest, digest, size, isKept, onAbandoned, onOver: forget });
    inFlight.set(key, transfer);
    // All readers may have left by now.
    if (signal.aborted) onAbandoned();
    else signal.addEventListener('abort', onAbandoned, { once: true });
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
      const open = (stop: AbortSignal) => begin(key, wanted, stop);
      const transfer = inFlight.get(key) ?? (await openings.run(open, { key, signal }));
      return transfer.join();
    },
    has: key => inFlight.has(key) || openings.has(key),
  };
}
