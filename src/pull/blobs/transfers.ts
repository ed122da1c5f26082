import { Fault } from '../../foundation/fault.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type Digest, splitDigest } from '../../oci/digest.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import type { ContentStore, Ingest, IngestReader } from '../../storage/content/index.ts';

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

/** A reader of a transfer. */
export interface TransferReader {
  /** Size of the whole blob in bytes. */
  readonly size: number;
  /** Returns the bytes from `start` to `end`, both included. Destroying the source leaves the transfer. */
  read(start: number, end: number): ByteSource;
  /** Leaves without reading. */
  leave(): void;
}

/** Why a transfer ended: the disk has no room for the rest of its copy. */
export class HaltedCopy extends Fault {
  /** Bytes that the copy had. Readers have them, or can still read them. */
  readonly size: number;
  /** Digest of these bytes. */
  readonly digest: Digest;

  constructor(cause: Fault, { size, digest }: { size: number; digest: Digest }) {
    super(cause.kind, cause.message, { phase: 'store', cause });
    this.size = size;
    this.digest = digest;
  }
}

interface TransferOptions {
  readonly ingest: Ingest;
  readonly digest: Digest;
  /** Size in bytes. */
  readonly size: number;
  /** Called when the last reader leaves before the transfer has finished. */
  readonly onAbandoned: () => void;
  /** Called when no reader can join any more: the transfer failed, or its copy was removed with its last reader. */
  readonly onOver: () => void;
  /** True to keep the copy as content; otherwise it is removed with its last reader. */
  readonly isKept: boolean;
}

/**
 * One transfer into a file, with its readers. Bytes are passed on as they arrive; the last ones only after the digest
 * is verified.
 */
class Transfer {
  readonly #options: TransferOptions;
  #readers = 0;
  #isWhole = false;
  #failure: Error | undefined;
  #isKept: boolean;
  #progress = Promise.withResolvers<void>();

  constructor(options: TransferOptions) {
    this.#options = options;
    this.#isKept = options.isKept;
  }

  /** True when the copy has become content, or will. */
  get isKept(): boolean {
    return this.#isKept;
  }

  /** Copies the source; rejects when it breaks off or does not match the digest. */
  async run(source: ByteSource): Promise<void> {
    const { ingest, digest, size, onOver } = this.#options;
    try {
      for (let chunk = await source.read(); chunk !== null; chunk = await source.read()) {
        await ingest.write(chunk.bytes).finally(chunk.release);
        this.#announce();
      }
      if (ingest.digest() !== digest || ingest.size !== size) {
        throw new Fault(
          'upstream',
          `The registry returned content with the wrong digest instead of ${digest}`,
          {
            phase: 'upstream',
          },
        );
      }
      this.#isWhole = true;
    } catch (error) {
      source.destroy();
      // Only a check before a write leaves the hash with the bytes of the file.
      const isHalted = error instanceof Fault && error.kind === 'storage-full';
      if (isHalted) {
        this.#failure = new HaltedCopy(error, { size: ingest.size, digest: ingest.digest() });
      } else this.#failure = error instanceof Error ? error : new Error(String(error));
      onOver();
      await ingest.abort();
      throw error;
    } finally {
      this.#announce();
    }
    // The readers do not wait for it.
    if (this.#isKept) await this.#keep();
    if (this.#readers === 0) this.#end();
  }

  /** Rejects when its copy is removed by now: it had become content, or it failed. */
  async join(): Promise<TransferReader> {
    this.#readers += 1;
    let isIn = true;
    const leave = () => {
      if (!isIn) return;
      isIn = false;
      this.#readers -= 1;
      if (this.#readers > 0 || this.#failure) return;
      if (this.#isWhole) this.#end();
      else this.#options.onAbandoned();
    };
    const reader = await this.#options.ingest.openToRead().catch(error => {
      leave();
      throw this.#failure ?? error;
    });
    return {
      size: this.#options.size,
      leave: () => {
        leave();
        reader.close();
      },
      read: (start, end) => this.#source(reader, start, end, leave),
    };
  }

  #source(reader: IngestReader, start: number, end: number, onClose: () => void): ByteSource {
    const available = (position: number) => this.#waitFor(position, end);
    return reader.read({ start, end, available, onClose });
  }

  /** Waits for bytes after `position`; returns the end of the available bytes. */
  async #waitFor(position: number, end: number): Promise<number> {
    const { ingest, size } = this.#options;
    for (;;) {
      if (this.#isWhole) return end + 1;
      // The last byte waits for the digest, so that no client mistakes a broken blob for a complete one.
      const available = Math.min(ingest.size, size - 1, end + 1);
      if (available > position) return available;
      if (this.#failure) throw this.#failure;
      await this.#progress.promise;
    }
  }

  /** Turns the copy into content. If that fails, the copy is removed with its last reader. */
  async #keep(): Promise<void> {
    try {
      await this.#options.ingest.commit();
    } catch {
      this.#isKept = false;
    }
  }

  /** Removes the copy, unless it is kept; open files stay readable. */
  #end(): void {
    const { ingest, onOver } = this.#options;
    if (this.#isKept) return;
    onOver();
    // A copy that cannot be removed now is a leftover, which the next start removes.
    ingest.abort().catch(() => {});
  }

  #announce(): void {
    this.#progress.resolve();
    this.#progress = Promise.withResolvers<void>();
  }
}
