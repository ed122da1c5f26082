import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy before PostgreSQL that counts round trips. */
export interface CountingProxy extends AsyncDisposable {
  /** The address of the database through the proxy. */
  readonly url: string;
  /** Round trips so far: PostgreSQL has answered this often that it is ready for the next statement. */
  trips(): number;
}

const readyForQuery = 0x5a;
const headBytes = 5;

export async function startCountingProxy(database: string): Promise<CountingProxy> {
  const url = new URL(database);
  const target = { host: url.hostname, port: Number(url.port) };
  const sockets = new Set<Socket>();
  let trips = 0;
  const server = createServer(client => {
    const upstream = connect(target);
    let rest = Buffer.alloc(0);
    upstream.on('data', chunk => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= headBytes) {
        // A message has a type and a length, which counts itself and not the type.
        const end = 1 + rest.readInt32BE(1);
        if (rest.length < end) break;
        if (rest[0] === readyForQuery) trips += 1;
        rest = rest.subarray(end);
      }
    });
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    trips: () => trips,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
