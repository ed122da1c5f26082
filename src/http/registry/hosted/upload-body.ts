import type { IncomingMessage } from 'node:http';
import type { UploadBody } from '../../../hosted/uploads/uploads.ts';

// A sender that is silent for so long is gone; what it has sent is kept.
const idleMs = 60_000;

/** The bytes of a request as an upload takes them in. */
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
  const stop = () => request.destroy(new Error('the sender is silent'));
  socket.setTimeout(idleMs, stop);
  try {
    // When the upload is refused in the middle, the connection is still needed for the answer.
    const pieces = request.iterator({ destroyOnReturn: false });
    for await (const bytes of pieces) yield bytes as Buffer;
  } finally {
    socket.setTimeout(0);
    socket.off('timeout', stop);
  }
}
