import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ByteSource, Chunk } from './byte-source.ts';
import { createFlowHash, type FlowAlgorithm, type FlowHash } from './flow-hash.ts';

/**
 * Why a blob could not be handed on: `digest`: its bytes are not the ones promised; `length`: more
 * bytes than promised; `upstream`: it broke and could not be resumed; `client-gone`: nobody wants
 * it any more; `aborted`: by the caller's signal.
 */
export type RelayErrorCode = 'digest' | 'length' | 'upstream' | 'client-gone' | 'aborted';

export class RelayError extends Error {
  readonly code: RelayErrorCode;
  /** Bytes received in good order before the end. */
  readonly bytes: number;

  constructor(code: RelayErrorCode, message: string, bytes: number, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RelayError';
    this.code = code;
    this.bytes = bytes;
  }
}

export interface RelayOptions {
  source: ByteSource;
  /** Its head is written by the caller, with `length` as Content-Length. */
  sink: ServerResponse;
  /** Bytes from the source, exactly. */
  length: number;
  /** What the bytes must hash to; leave it out for a part of a blob. */
  digest?: { algorithm: FlowAlgorithm; hex: string } | undefined;
  /** Opens the rest of the body at a byte offset of it, after a break; must answer for that very offset. */
  reopen?: ((offset: number) => Promise<ByteSource>) | undefined;
  /** Tries to go on after a break before giving up; counted anew after {@link progressBytes}. */
  maxResumes?: number;
  /** Milliseconds before the first try; threefold before each next one (default 100). */
  backoffMs?: number;
  signal?: AbortSignal | undefined;
}

/** A source that delivers this much between two breaks is worth more tries; they stay finite, as the length is. */
export const progressBytes = 8 * 1024 * 1024;
/** Bytes on the way to client and hash; beyond it no more is read. */
const inFlightBytes = 4 * 1024 * 1024;

/**
 * Pumps a source into a response with back-pressure both ways, hashing on the way. The last chunk
 * is held back until length and digest are proved right. On any failure the response's socket is
 * destroyed before its last byte, and the promise rejects with a {@link RelayError}. Resolves when
 * the last byte is with the kernel.
 */
export async function relay(options: RelayOptions): Promise<{ bytes: number; resumes: number }> {
  const transfer = new Transfer(options);
  try {
    return await transfer.run();
  } finally {
    transfer.dispose();
  }
}

class Transfer {
  readonly #options: RelayOptions;
  readonly #hash: FlowHash | null;
  readonly #stop = new AbortController();
  readonly #onClose = (): void => this.#halt('client-gone', 'the client left');
  readonly #onAbort = (): void => this.#halt('aborted', 'the transfer was given up');
  #source: ByteSource;
  #bytes = 0;
  #resumes = 0;
  /** Resumes since the last real progress, and where that was counted from. */
  #tries = 0;
  #triesAt = 0;
  #inFlight = 0;
  #roomy: (() => void) | null = null;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#source = options.source;
    const { digest, length, sink, signal } = options;
    this.#hash = digest === undefined ? null : createFlowHash(digest.algorithm, length);
    sink.once('close', this.#onClose);
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    if (sink.destroyed || sink.closed) this.#onClose();
    if (signal?.aborted) this.#onAbort();
  }

  async run(): Promise<{ bytes: number; resumes: number }> {
    try {
      const last = await this.#pump();
      await this.#prove(last);
      await this.#finish(last);
      return { bytes: this.#bytes, resumes: this.#resumes };
    } catch (cause) {
      const error = this.#reason(cause);
      this.#source.destroy(error);
      this.#hash?.abort();
      this.#options.sink.destroy();
      throw error;
    }
  }

  dispose(): void {
    this.#options.sink.off('close', this.#onClose);
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
  }

  /** Hands on all chunks but the last, which it returns; null for a body of no bytes. */
  async #pump(): Promise<Chunk | null> {
    const { length } = this.#options;
    while (this.#bytes < length) {
      const chunk = await this.#next();
      const bytes = this.#bytes + chunk.bytes.length;
      if (bytes > length)
        throw this.#error('length', `the upstream sent more than ${length} bytes`);
      this.#bytes = bytes;
      if (bytes === length) return chunk;
      this.#pass(chunk);
      if (this.#inFlight >= inFlightBytes) await this.#room();
    }
    return null;
  }

  async #next(): Promise<Chunk> {
    for (;;) {
      let failure: unknown;
      try {
        this.#stop.signal.throwIfAborted();
        const chunk = await this.#source.read();
        if (chunk !== null) return chunk;
      } catch (error) {
        failure = error;
      }
      await this.#resume(failure);
    }
  }

  async #resume(failure: unknown): Promise<void> {
    const { reopen, maxResumes = 3, backoffMs = 100, length } = this.#options;
    this.#stop.signal.throwIfAborted();
    this.#source.destroy();
    if (this.#bytes - this.#triesAt >= progressBytes) this.#tries = 0;
    this.#triesAt = this.#bytes;
    const where = `after ${this.#bytes} of ${length} bytes`;
    for (let cause = failure; ; ) {
      if (reopen === undefined || this.#tries >= maxResumes) {
        throw this.#error('upstream', `the upstream broke off ${where}`, cause);
      }
      const delay = backoffMs * 3 ** this.#tries;
      this.#tries += 1;
      this.#resumes += 1;
      await sleep(delay, undefined, { signal: this.#stop.signal });
      try {
        this.#source = await reopen(this.#bytes);
        return;
      } catch (error) {
        cause = error;
      }
    }
  }

  #pass(chunk: Chunk): void {
    const count = chunk.bytes.length;
    let users = this.#hash === null ? 1 : 2;
    this.#inFlight += count;
    const done = (): void => {
      users -= 1;
      if (users > 0) return;
      chunk.release();
      this.#inFlight -= count;
      this.#roomy?.();
    };
    this.#hash?.update(chunk.bytes).then(done, error => {
      done();
      this.#halt('digest', 'the digest could not be computed', error);
    });
    this.#options.sink.write(chunk.bytes, done);
  }

  /** Waits until less is in flight; or for the stop, which frees everything. */
  async #room(): Promise<void> {
    while (this.#inFlight >= inFlightBytes) {
      this.#stop.signal.throwIfAborted();
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#roomy = resolve;
      await promise;
    }
  }

  /** Makes sure that nothing follows and that the bytes are the right ones. */
  async #prove(last: Chunk | null): Promise<void> {
    const { digest, length } = this.#options;
    const proof = this.#hash === null ? null : this.#value(this.#hash, last);
    // The end itself may be missing (a lost terminator): the length is what was promised.
    const more = await this.#source.read().catch(() => null);
    const hex = await proof;
    this.#stop.signal.throwIfAborted();
    if (more !== null) throw this.#error('length', `the upstream sent more than ${length} bytes`);
    if (digest !== undefined && hex !== digest.hex) {
      throw this.#error(
        'digest',
        `the bytes hash to ${digest.algorithm}:${hex}, not ${digest.hex}`,
      );
    }
  }

  async #value(hash: FlowHash, last: Chunk | null): Promise<string> {
    try {
      const value = last === null ? null : hash.update(last.bytes);
      const digest = hash.digest();
      await Promise.all([value, digest]);
      return await digest;
    } catch (cause) {
      throw this.#error('digest', 'the digest could not be computed', cause);
    }
  }

  #finish(last: Chunk | null): Promise<void> {
    const { sink } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#stop.signal.addEventListener('abort', () => reject(this.#stop.signal.reason), {
      once: true,
    });
    sink.end(last?.bytes, () => {
      last?.release();
      resolve();
    });
    return promise;
  }

  #halt(code: RelayErrorCode, message: string, cause?: unknown): void {
    if (this.#stop.signal.aborted) return;
    const error = this.#error(code, message, cause);
    this.#stop.abort(error);
    this.#source.destroy(error);
    this.#roomy?.();
  }

  #reason(cause: unknown): RelayError {
    const stopped: unknown = this.#stop.signal.reason;
    if (stopped instanceof RelayError) return stopped;
    return cause instanceof RelayError
      ? cause
      : this.#error('upstream', 'the transfer failed', cause);
  }

  #error(code: RelayErrorCode, message: string, cause?: unknown): RelayError {
    return new RelayError(code, message, this.#bytes, { cause });
  }
}
