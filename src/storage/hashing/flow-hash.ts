/** A digest computed over bytes that flow by. The caller need not wait between calls of `update`. */
export interface FlowHash {
  /** Resolves when the bytes are read and their memory may be used again; rejects when the hash is lost. */
  update(chunk: Uint8Array): Promise<void>;
  /** Ends the hash; resolves with its value in hex. Rejects when the hash is lost. */
  digest(): Promise<string>;
  /** Ends the hash without a value; waiting calls are rejected. */
  abort(): void;
}

export type FlowAlgorithm = 'sha256' | 'sha512';
