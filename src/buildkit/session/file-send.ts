import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { status } from '@grpc/grpc-js';
import { FileSend } from '../gen/moby/filesync/v1/filesync_pb.js';
import { GrpcError, type Handler, streamHandler } from '../grpc/grpc-server.ts';

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
