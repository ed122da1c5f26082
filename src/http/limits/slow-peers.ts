import type { Connection, Connections } from './connections.ts';

/** Minimum progress in bytes. A client that transfers less within the time only holds the connection. */
const progressBytes = 64 * 1024;
const looksPerStall = 4;

/** Where a direction of a connection was when it last made progress. */
interface Mark {
  bytes: number;
  at: number;
}

interface Marks {
  taken: Mark | undefined;
  sent: Mark | undefined;
}

/**
 * Ends connections whose client takes less than 64 KiB of a response, or sends less of a body, within
 * `stallMs` while the server waits for it. Delays by others do not count: a response that comes slowly
 * from upstream, a body that the server does not read. Returns a function that stops the watch.
 */
export function endSlowPeers(connections: Connections, stallMs: number): () => void {
  const marks = new WeakMap<Connection, Marks>();
  const look = (): void => {
    const now = performance.now();
    for (const connection of connections.list()) {
      const { socket } = connection;
      const seen = marks.get(connection) ?? { taken: undefined, sent: undefined };
      seen.taken = advance(seen.taken, takenBytes(connection), now);
      seen.sent = advance(seen.sent, sentBytes(connection), now);
      marks.set(connection, seen);
      if (isStalled(seen.taken, now, stallMs) || isStalled(seen.sent, now, stallMs)) {
        socket.destroy();
      }
    }
  };
  const timer = setInterval(look, Math.max(1, stallMs / looksPerStall)).unref();
  return () => clearInterval(timer);
}

function advance(mark: Mark | undefined, bytes: number | undefined, now: number) {
  if (bytes === undefined) return undefined;
  return mark && bytes - mark.bytes < progressBytes ? mark : { bytes, at: now };
}

function isStalled(mark: Mark | undefined, now: number, stallMs: number): boolean {
  return mark !== undefined && now - mark.at >= stallMs;
}

/** Returns the bytes that the client has taken; undefined while none wait for it. */
function takenBytes({ socket }: Connection): number | undefined {
  const waiting = socket.writableLength;
  return waiting === 0 ? undefined : socket.bytesWritten - waiting;
}

/** Returns the bytes that the client has sent; undefined while the server expects no body from it. */
function sentBytes({ socket, request }: Connection): number | undefined {
  if (!request || request.complete || request.readableLength > 0) return undefined;
  return socket.bytesRead;
}
