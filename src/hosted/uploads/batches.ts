/** Gathers small pieces into large writes, and accepts more pieces during a write. */
export interface Batches {
  /** Resolves when the caller can add more. Rejects after a failed write. */
  add(bytes: Uint8Array): Promise<void>;
  /** Writes all pieces so far; more can be added meanwhile. Rejects after a failed write. */
  flush(): Promise<void>;
}

const batchBytes = 1024 * 1024;

/** @param write writes one batch; it is not called again before it has settled */
export function createBatches(write: (batch: Uint8Array[]) => Promise<void>): Batches {
  let batch: Uint8Array[] = [];
  let size = 0;
  let writing: Promise<void> = Promise.resolve();

  /** Starts to write the batch after the previous one; resolves when the previous one is written. */
  const begin = (): Promise<void> => {
    const before = writing;
    if (size === 0) return before;
    const full = batch;
    batch = [];
    size = 0;
    writing = before.then(() => write(full));
    // The next caller that waits for the write receives the error.
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
