import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ByteSource, Chunk } from '../../../storage/content/byte-source.ts';
import {
  createFlowHash,
  type FlowAlgorithm,
  type FlowHash,
} from '../../../storage/hashing/index.ts';

/**
 * Why the relay of a blob failed: `digest`: the bytes do not match the digest; `length`: the source sent
 * more bytes than promised; `upstream`: the source broke or ended early; `client-gone`: the client
 * disconnected or stopped reading.
 */
export type RelayErrorCode = 'digest' | 'length' | 'upstream' | 'client-gone';

export class RelayError extends Error {
  readonly code: RelayErrorCode;
  /** Bytes received before the failure. */
  readonly bytes: number;

  constructor(code: RelayErrorCode, message: string, bytes: number, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RelayError';
    this.code = code;
    this.bytes = bytes;
  }
}

export interface RelayOptions {
  /** Destroyed at the end, also after a failure. */
  readonly source: ByteSource;
  /** The caller writes the head of this response, with `length` as Content-Length. */
  readonly sink: ServerResponse;
  /** Exact number of bytes from the source. */
  readonly length: number;
  /** Expected digest of the bytes; omit it for a part of a blob. */
  readonly digest?: { readonly algorithm: FlowAlgorithm; readonly hex: string } | undefined;
  /** Milliseconds after which a client that takes nothing counts as gone. Default: five minutes. */
  readonly stallMs?: number;
}

/** Maximum bytes on the way to client and hash. Beyond it, the relay reads no more. */
const inFlightBytes = 4 * 1024 * 1024;
/** Longer than a source may idle and recover. Without it, a few clients that never read would hold all buffers. */
const patienceMs = 5 * 60_000;

/**
 * Pumps a source into a response with back-pressure both ways, and hashes on the way, without copying.
 * Holds back the last chunk until length and digest are verified. On any failure the
 * response's socket is destroyed before its last byte, and the promise rejects with a
 * {@link RelayError}. Resolves when the kernel has the last byte.
 */
export async function relay(options: RelayOptions): Promise<void> {
  await new Transfer(options).run();
}

class Transfer {
  readonly #options: RelayOptions;
  readonly #hash: FlowHash | null;
  #socket: Socket | null = null;
  #bytes = 0;
  #inFlight = 0;
  /** Writes that the kernel has not taken over yet. */
  readonly #writes = new Set<() => void>();
  #stopped: RelayError | null = null;
  #changed: (() => void) | null = null;

  constructor(options: RelayOptions) {
    this.#options = options;
    const { digest, length } = options;
    this.#hash = digest === undefined ? null : createFlowHash(digest.algorithm, length);
  }

  async run(): Promise<void> {
    const { source, sink, stallMs = patienceMs } = this.#options;
    const onClose = (): void => this.#stop('client-gone', 'the client left');
    const onStall = (): void =>
      this.#stop('client-gone', `the client read nothing for ${stallMs} ms`);
    const onSocket = (): void => this.#change();
    sink.once('close', onClose).once('socket', onSocket).setTimeout(stallMs, onStall);
    if (sink.destroyed || sink.closed) onClose();
    let last: Chunk | null = null;
    try {
      // A response queued behind another one on its connection has no socket yet. Its bytes would only pile up.
      await this.#until(() => sink.socket !== null);
      this.#socket = sink.socket;
      last = await this.#pump();
      await this.#prove(last);
      const ending = last;
      last = null;
      await this.#finish(ending);
    } catch (cause) {
      last?.release();
      throw this.#abandon(cause);
    } finally {
      sink.off('close', onClose).off('socket', onSocket).off('timeout', onStall);
      source.destroy();
    }
  }

  /** Passes on all chunks except the last, which it returns; null for an empty body. */
  async #pump(): Promise<Chunk | null> {
    const { source, length } = this.#options;
    while (this.#bytes < length) {
      const chunk = await source.read();
      if (chunk === null) {
        throw this.#error('upstream', `the upstream ended after ${this.#bytes} of ${length} bytes`);
      }
      const bytes = this.#bytes + chunk.bytes.length;
      if (bytes > length || this.#stopped !== null) {
        chunk.release();
        throw this.#stopped ?? this.#overlong();
      }
      this.#bytes = bytes;
      if (bytes === length) return chunk;
      this.#pass(chunk);
      if (this.#inFlight >= inFlightBytes) await this.#until(() => this.#inFlight < inFlightBytes);
    }
    return null;
  }

  #pass(chunk: Chunk): void {
    const count = chunk.bytes.length;
    let users = this.#hash === null ? 1 : 2;
    this.#inFlight += count;
    const leave = (): void => {
      users -= 1;
      if (users > 0) return;
      chunk.release();
      this.#inFlight -= count;
      this.#change();
    };
    this.#hash?.update(chunk.bytes).then(leave, error => {
      leave();
      this.#stop('digest', 'the digest could not be computed', error);
    });
    this.#options.sink.write(chunk.bytes, this.#writing(leave));
  }

  /** Returns a write callback. It calls `done` once: after the write, or when the write cannot happen any more. */
  #writing(done: () => void): () => void {
    const written = (): void => {
      if (this.#writes.delete(written)) done();
    };
    this.#writes.add(written);
    return written;
  }

  /** Verifies that nothing follows and that the digest matches. */
  async #prove(last: Chunk | null): Promise<void> {
    const { source, digest } = this.#options;
    const proof = this.#hash === null ? null : this.#value(this.#hash, last);
    proof?.catch(() => {});
    // The terminator may be missing: the promised length is enough.
    const more = await source.read().catch(() => null);
    more?.release();
    if (this.#stopped !== null) throw this.#stopped;
    if (more !== null) throw this.#overlong();
    const hex = await proof;
    if (this.#stopped !== null) throw this.#stopped;
    if (digest !== undefined && hex !== digest.hex) {
      const { algorithm } = digest;
      throw this.#error('digest', `the bytes hash to ${algorithm}:${hex}, not ${digest.hex}`);
    }
  }

  async #value(hash: FlowHash, last: Chunk | null): Promise<string> {
    try {
      const update = last === null ? undefined : hash.update(last.bytes);
      const [value] = await Promise.all([hash.digest(), update]);
      return value;
    } catch (cause) {
      throw this.#error('digest', 'the digest could not be computed', cause);
    }
  }

  async #finish(last: Chunk | null): Promise<void> {
    let isFinished = false;
    const written = this.#writing(() => last?.release());
    this.#options.sink.end(last?.bytes, () => {
      isFinished = true;
      written();
      this.#change();
    });
    await this.#until(() => isFinished);
  }

  /** Ends everything. Frees the memory of pending writes when the socket has closed, not before. */
  #abandon(cause: unknown): RelayError {
    const { sink } = this.#options;
    const error =
      this.#stopped ??
      (cause instanceof RelayError
        ? cause
        : this.#error(
            'upstream',
            `the upstream closed the connection after ${this.#bytes} bytes`,
            cause,
          ));
    this.#stopped = error;
    this.#hash?.abort();
    const socket = this.#socket;
    sink.destroy();
    // Node does not call back for a write that a dying connection never took.
    const free = (): void => {
      for (const written of [...this.#writes]) written();
    };
    if (socket === null || socket.closed) free();
    else socket.once('close', free);
    return error;
  }

  /** Waits until the condition holds. Throws when the transfer stops first. */
  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      if (this.#stopped !== null) throw this.#stopped;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#changed = resolve;
      await promise;
    }
  }

  #change(): void {
    this.#changed?.();
  }

  #stop(code: RelayErrorCode, message: string, cause?: unknown): void {
    if (this.#stopped !== null) return;
    this.#stopped = this.#error(code, message, cause);
    this.#options.source.destroy(this.#stopped);
    this.#change();
  }

  #overlong(): RelayError {
    return this.#error('length', `the upstream sent more than ${this.#options.length} bytes`);
  }

  #error(code: RelayErrorCode, message: string, cause?: unknown): RelayError {
    return new RelayError(code, message, this.#bytes, { cause });
  }
}
