import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ByteSource, Chunk } from '../../../storage/content/byte-source.ts';
import { createFlowHash } from '../../../storage/hashing/create-flow-hash.ts';
import type { FlowAlgorithm, FlowHash } from '../../../storage/hashing/flow-hash.ts';

/**
 * Why a blob could not be handed on: `digest`: its bytes are not the ones promised; `length`: more
 * bytes than promised; `upstream`: the source broke or ended short; `client-gone`: nobody takes it
 * any more.
 */
export type RelayErrorCode = 'digest' | 'length' | 'upstream' | 'client-gone';

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
  /** Destroyed in the end, whatever the end is. */
  readonly source: ByteSource;
  /** Its head is written by the caller, with `length` as Content-Length. */
  readonly sink: ServerResponse;
  /** Bytes from the source, exactly. */
  readonly length: number;
  /** What the bytes must hash to; leave it out for a part of a blob. */
  readonly digest?: { readonly algorithm: FlowAlgorithm; readonly hex: string } | undefined;
  /** Milliseconds after which a client that takes nothing has left (default five minutes). */
  readonly stallMs?: number;
}

/** Bytes on the way to client and hash; beyond it no more is read. */
const inFlightBytes = 4 * 1024 * 1024;
/** Longer than a source may idle and be mended; without it, a few clients that never read would hold all buffers. */
const patienceMs = 5 * 60_000;

/**
 * Pumps a source into a response with back-pressure both ways, hashing on the way; nothing is
 * copied. The last chunk is held back until length and digest are proved right. On any failure the
 * response's socket is destroyed before its last byte, and the promise rejects with a
 * {@link RelayError}. Resolves when the last byte is with the kernel.
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
      this.#stop('client-gone', `the client took nothing for ${stallMs} ms`);
    const onSocket = (): void => this.#change();
    sink.once('close', onClose).once('socket', onSocket).setTimeout(stallMs, onStall);
    if (sink.destroyed || sink.closed) onClose();
    let last: Chunk | null = null;
    try {
      // A response behind another one on its connection has no socket yet, and would only pile up.
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

  /** Hands on all chunks but the last, which it returns; null for a body of no bytes. */
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

  /** A callback for a write that calls `done` once: when it was written, or when it never will be. */
  #writing(done: () => void): () => void {
    const written = (): void => {
      if (this.#writes.delete(written)) done();
    };
    this.#writes.add(written);
    return written;
  }

  /** Makes sure that nothing follows and that the bytes are the right ones. */
  async #prove(last: Chunk | null): Promise<void> {
    const { source, digest } = this.#options;
    const proof = this.#hash === null ? null : this.#value(this.#hash, last);
    proof?.catch(() => {});
    // The end itself may be missing (a lost terminator): the length is what was promised.
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

  /** Ends everything; the memory of pending writes is free once the socket is closed, not before. */
  #abandon(cause: unknown): RelayError {
    const { sink } = this.#options;
    const error =
      this.#stopped ??
      (cause instanceof RelayError
        ? cause
        : this.#error('upstream', `the upstream broke off after ${this.#bytes} bytes`, cause));
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

  /** Waits until it is so; throws when the transfer is stopped before. */
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
