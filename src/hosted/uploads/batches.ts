/** Gathers small pieces into large writes, and lets the next ones come in while one is under way. */
export interface Batches {
  /** Resolves when more may come. Rejects when a write has failed. */
  add(bytes: Uint8Array): Promise<void>;
  /** Writes what has come so far, also while more comes. Rejects when a write has failed. */
  flush(): Promise<void>;
}

const batchBytes = 1024 * 1024;

/** @param write is called with one batch at a time */
export function createBatches(write: (batch: Uint8Array[]) => Promise<void>): Batches {
  let batch: Uint8Array[] = [];
  let size = 0;
  let writing: Promise<void> = Promise.resolve();

  /** Begins to write the batch, after the one before it; resolves when that one is written. */
  const begin = (): Promise<void> => {
    const before = writing;
    if (size === 0) return before;
    const full = batch;
    batch = [];
    size = 0;
    writing = before.then(() => write(full));
    // Told by who waits for it.
    writing.catch(() => {});
    return before;
  };

  return {
    async add(bytes) {
      batch.push(bytes);
      size += bytes.length;
      if (size >= batchBytes) await begin();
    },
    async flush() {
      await begin();
      await writing;
    },
  };
}
