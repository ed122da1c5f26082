import type { IncomingMessage } from 'node:http';
import type { UploadBody } from '../../../hosted/uploads/upload.ts';

// A sender that is silent for this time is gone. The upload keeps the bytes already sent.
const idleMs = 60_000;

/** Returns the body of a request in the form that an upload accepts. */
export function uploadBody(request: IncomingMessage): UploadBody {
  const length = request.headers['content-length'];
  return {
    chunks: read(request),
    length: length === undefined ? undefined : Number(length),
    stop: reason => {
      request.destroy(reason);
    },
  };
}

async function* read(request: IncomingMessage): AsyncGenerator<Uint8Array> {
  const { socket } = request;
  const stop = () => request.destroy(new Error('the client sends nothing'));
  socket.setTimeout(idleMs, stop);
  try {
    // When the upload is rejected midway, the response still needs the connection.
    const pieces = request.iterator({ destroyOnReturn: false });
    for await (const bytes of pieces) yield bytes as Buffer;
  } finally {
    socket.setTimeout(0);
    socket.off('timeout', stop);
  }
}
