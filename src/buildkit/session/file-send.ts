import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { status } from '@grpc/grpc-js';
import { FileSend } from '../gen/moby/filesync/v1/filesync_pb.js';
import { GrpcError, type Handler, streamHandler } from '../grpc/grpc-server.ts';

/** Opens the place for a file that an exporter writes. */
export type OpenSink = () => Writable | Promise<Writable>;

/**
 * Takes in files of the builder: `sinks` by the position of their exporter. The builder is told that a
 * file is done when its sink has finished. `onFailure` hears of a sink that broke.
 */
export function fileSendHandler(
  sinks: ReadonlyMap<number, OpenSink>,
  onFailure: (error: unknown) => void,
): Handler {
  return streamHandler(FileSend.method.diffCopy, async call => {
    // Builders that know one exporter only do not number it.
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
