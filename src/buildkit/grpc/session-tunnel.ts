import { Duplex } from 'node:stream';
import { create } from '@bufbuild/protobuf';
import type { ClientDuplexStream, StatusObject } from '@grpc/grpc-js';
import { type BytesMessage, BytesMessageSchema } from '../gen/moby/buildkit/v1/control_pb.js';

// Well below BuildKit's message limit. A write never buffers more than this.
const pieceBytes = 1024 * 1024;

/** A connection inside a call with a byte stream in each direction. BuildKit calls it a session. */
export class Tunnel extends Duplex {
  readonly #call: ClientDuplexStream<BytesMessage, BytesMessage>;
  /** Status with which the call ended. */
  readonly status: Promise<StatusObject>;

  constructor(call: ClientDuplexStream<BytesMessage, BytesMessage>) {
    super({ allowHalfOpen: false });
    this.#call = call;
    this.status = new Promise(resolve => call.on('status', resolve));
    call.on('data', (message: BytesMessage) => {
      if (message.data.length > 0 && !this.push(message.data)) call.pause();
    });
    call.on('end', () => this.push(null));
    call.on('error', error => this.destroy(error));
    // The status has the reason, and the tunnel's owner waits for the status.
    this.on('error', () => {});
  }

  override _read(): void {
    this.#call.resume();
  }

  override _write(
    chunk: Buffer,
    _encoding: BufferEncoding,
    callback: (error?: Error | null) => void,
  ): void {
    this.#send(chunk, callback);
  }

  override _writev(
    chunks: { chunk: Buffer; encoding: BufferEncoding }[],
    callback: (error?: Error | null) => void,
  ): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)), callback);
  }

  override _final(callback: (error?: Error | null) => void): void {
    this.#call.end();
    callback();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#call.cancel();
    callback(error);
  }

  #send(bytes: Buffer, callback: (error?: Error | null) => void): void {
    const rest = bytes.subarray(pieceBytes);
    const message = create(BytesMessageSchema, { data: bytes.subarray(0, pieceBytes) });
    this.#call.write(message, (error?: Error | null) => {
      if (error || rest.length === 0) callback(error ?? null);
      else this.#send(rest, callback);
    });
  }
}
