import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { status } from '@grpc/grpc-js';
import { Content, WriteAction } from '../gen/containerd/services/content/v1/content_pb.js';
import { FileSend } from '../gen/moby/filesync/v1/filesync_pb.js';
import { GrpcError, type Handler, streamHandler } from '../grpc/grpc-server.ts';

/** Destination of an image whose manifests, configs and layers arrive one by one. */
export interface BlobSink {
  /** Returns true for a blob that the builder does not have to send. */
  has(digest: string): boolean | Promise<boolean>;
  /** Opens the destination of a blob of this size (bytes). The same blob may come again after a failure. */
  open(digest: string, size: number): Promise<BlobWriter>;
}

/** Destination of one blob. */
export interface BlobWriter {
  /** Appends; resolves when the bytes may be reused. */
  write(bytes: Uint8Array): Promise<void>;
  /** Called when all bytes have arrived. Rejects if they are not those of the digest. */
  commit(): Promise<void>;
  /** Called in place of `commit` if not all bytes arrive. */
  abort(): Promise<void>;
}

/**
 * Receives blobs from the builder. The builder waits for the response to each message. `onFailure` receives the error
 * of a sink that fails. Source: containerd, api/services/content/v1 and core/content/proxy.
 */
export function blobSendHandler(sink: BlobSink, onFailure: (error: unknown) => void): Handler {
  const handler = streamHandler(Content.method.write, async call => {
    let digest = '';
    let size = 0;
    let offset = 0;
    let writer: BlobWriter | undefined;
    try {
      for await (const { action, expected, total, offset: at, data } of call.messages) {
        if (!writer) {
          if (await sink.has(expected))
            throw new GrpcError(status.ALREADY_EXISTS, `${expected} is here`);
          digest = expected;
          size = Number(total);
          writer = await sink.open(digest, size);
        }
        if (data.length > 0) {
          if (Number(at) !== offset || offset + data.length > size) {
            throw new GrpcError(status.OUT_OF_RANGE, `${digest} continues at ${offset} of ${size}`);
          }
          await writer.write(data);
          offset += data.length;
        }
        if (action === WriteAction.COMMIT) {
          if (offset !== size) {
            throw new GrpcError(
              status.FAILED_PRECONDITION,
              `${digest} ends at ${offset} of ${size}`,
            );
          }
          await writer.commit();
          writer = undefined;
        }
        await call.send({ action, offset: BigInt(offset), total: BigInt(size), digest });
        if (action === WriteAction.COMMIT) return;
      }
    } catch (error) {
      if (!call.signal.aborted && !(error instanceof GrpcError)) onFailure(error);
      throw error;
    } finally {
      await writer?.abort();
    }
  });
  return { ...handler, reusesMemory: true };
}

/** Opens the destination of a file that an exporter writes. */
export type OpenSink = () => Writable | Promise<Writable>;

/**
 * Receives files from the builder; `sinks` are keyed by the position of their exporter. Confirms a file to the builder
 * once its sink has finished. `onFailure` receives the error of a sink that fails.
 */
export function fileSendHandler(
  sinks: ReadonlyMap<number, OpenSink>,
  onFailure: (error: unknown) => void,
): Handler {
  return streamHandler(FileSend.method.diffCopy, async call => {
    // Builders that support only one exporter do not send its number.
    const number = Number(call.header('buildkit-attachable-exporter-id')[0] ?? 0);
    const open = sinks.get(number);
    if (!open) throw new GrpcError(status.NOT_FOUND, `Exporter ${number} has no sink`);
    const bytes = async function* () {
      for await (const { data } of call.messages) yield data;
    };
    try {
      await pipeline(bytes, await open(), { signal: call.signal });
    } catch (error) {
      if (!call.signal.aborted && !(error instanceof GrpcError)) onFailure(error);
      throw error;
    }
  });
}
