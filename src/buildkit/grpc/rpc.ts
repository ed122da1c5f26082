import {
  create,
  type DescMessage,
  type DescMethodBiDiStreaming,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { Client, ClientDuplexStream, ClientReadableStream } from '@grpc/grpc-js';
import { Metadata } from '@grpc/grpc-js';

type Method = { readonly name: string; readonly parent: { readonly typeName: string } };

/** Returns the path of a method on the wire, such as `/moby.buildkit.v1.Control/Solve`. */
export function pathOf(method: Method): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Sends one request for one response. Rejects with grpc-js's `ServiceError`, or with the reason of the signal. */
export function callUnary<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  signal?: AbortSignal,
): Promise<MessageShape<O>> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => call.cancel();
    const call = client.makeUnaryRequest(
      pathOf(method),
      encoder(method.input),
      decoder(method.output),
      create(method.input, request),
      (error, response) => {
        signal?.removeEventListener('abort', onAbort);
        if (response !== undefined && !error) resolve(response);
        else reject(signal?.aborted ? signal.reason : error);
      },
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Sends one request for a stream of responses. The stream emits `error` with a `ServiceError`; `cancel` ends it. */
export function callServerStream<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodServerStreaming<I, O>,
  request: MessageInitShape<I>,
): ClientReadableStream<MessageShape<O>> {
  return client.makeServerStreamRequest(
    pathOf(method),
    encoder(method.input),
    decoder(method.output),
    create(method.input, request),
  );
}

/** Opens a stream of messages in both directions. Each value of the metadata is sent as a separate header. */
export function callBidi<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: DescMethodBiDiStreaming<I, O>,
  headers: Readonly<Record<string, string | readonly string[]>>,
): ClientDuplexStream<MessageShape<I>, MessageShape<O>> {
  const metadata = new Metadata();
  for (const [name, values] of Object.entries(headers)) {
    for (const value of [values].flat()) metadata.add(name, value);
  }
  return client.makeBidiStreamRequest(
    pathOf(method),
    encoder(method.input),
    decoder(method.output),
    metadata,
  );
}

function encoder<T extends DescMessage>(schema: T): (message: MessageShape<T>) => Buffer {
  return message => {
    const bytes = toBinary(schema, message);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
}

function decoder<T extends DescMessage>(schema: T): (bytes: Buffer) => MessageShape<T> {
  return bytes => fromBinary(schema, bytes);
}
