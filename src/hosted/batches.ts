/** Gathers small pieces into large writes, and lets the next ones come in while one is under way. */
export interface Batches {
  /** Resolves when more may come. Rejects when a write has failed. */
  add(bytes: Uint8Array): Promise<void>;
  /** Writes what is left. */
  end(): Promise<void>;
}

const batchBytes = 1024 * 1024;

/** @param write is called with one batch at a time */
export function createBatches(write: (batch: Uint8Array[]) => Promise<void>): Batches {
  let batch: Uint8Array[] = [];
  let size = 0;
  let writing: Promise<void> = Promise.resolve();

  const flush = async (): Promise<void> => {
    await writing;
    const full = batch;
    batch = [];
    size = 0;
    writing = write(full);
    // Told by who waits for it.
    writing.catch(() => {});
  };

  return {
    async add(bytes) {
      batch.push(bytes);
      size += bytes.length;
      if (size >= batchBytes) await flush();
    },
    async end() {
      if (size > 0) await flush();
      await writing;
    },
  };
}
