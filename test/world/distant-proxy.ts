import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A round trip of a connection: from the first byte that the client sends to the last byte of the response. */
export interface RoundTrip {
  readonly began: number;
  /** `Infinity` until the first byte of the response. */
  readonly ended: number;
}

/** A proxy before a server that seems far away, and counts round trips. */
export interface DistantProxy extends AsyncDisposable {
  /** The address of the server through the proxy. */
  readonly url: string;
  /** Returns the round trips that began since the last call of it. */
  next(): readonly RoundTrip[];
}

/**
 * Starts a proxy on a free port of 127.0.0.1. It holds each piece of a response back for the delay (ms). A round trip
 * begins when a client sends after it has received something, or when it sends for the first time.
 */
export async function startDistantProxy(address: string, delayMs = 5): Promise<DistantProxy> {
  const url = new URL(address);
  const target = { host: url.hostname, port: Number(url.port) };
  const sockets = new Set<Socket>();
  let trips: { began: number; ended: number }[] = [];
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer(client => {
    const upstream = connect(target);
    for (const socket of [client, upstream]) keep(socket);
    let trip = { began: 0, ended: 0 };
    client.on('data', chunk => {
      if (trip.ended < Number.POSITIVE_INFINITY) {
        trip = { began: performance.now(), ended: Number.POSITIVE_INFINITY };
        trips.push(trip);
      }
      pass(client, upstream, chunk);
    });
    let order = Promise.resolve();
    upstream.on('data', chunk => {
      const delay = sleep(delayMs);
      order = order.then(async () => {
        await delay;
        trip.ended = performance.now();
        pass(upstream, client, chunk);
      });
    });
    client.on('error', () => upstream.destroy());
    client.on('close', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    upstream.on('close', () => void order.then(() => client.destroy()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href.replace(/\/$/, ''),
    next() {
      const taken = trips;
      trips = [];
      return taken;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Hands bytes on, and reads no more while the other side does not take them. */
function pass(from: Socket, to: Socket, chunk: Buffer): void {
  if (to.destroyed || to.write(chunk)) return;
  from.pause();
  to.once('drain', () => from.resume());
}

/** Returns how many of the round trips waited for another one: the longest series of which none overlap. */
export function inSeries(trips: readonly RoundTrip[]): number {
  let count = 0;
  let end = 0;
  for (const { began, ended } of trips.toSorted((one, other) => one.ended - other.ended)) {
    if (began < end) continue;
    count += 1;
    end = ended;
  }
  return count;
}
