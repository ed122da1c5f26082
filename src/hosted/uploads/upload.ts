/** The bytes of a request, and a way for the server to end it. */
export interface UploadBody {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Bytes, when the request announces them. */
  readonly length: number | undefined;
  stop(reason: Error): void;
}

/** The range of bytes in a request, both ends included. */
export interface ChunkRange {
  readonly start: number;
  readonly end: number;
}

/**
 * A blob on its way into a repository. The received bytes stay when a connection breaks, and the client can resume. Chunks
 * that were acknowledged also stay when the server ends.
 */
export interface Upload {
  readonly id: string;
  readonly repository: string;
  /** Bytes so far. */
  readonly size: number;
}
