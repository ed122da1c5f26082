import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A proxy before PostgreSQL that counts round trips. */
export interface CountingProxy extends AsyncDisposable {
  /** The address of the database through the proxy. */
  readonly url: string;
  /** Round trips so far: how often a connection has sent something while it waited for no answer. */
  trips(): number;
}

const types = { sync: 0x53, query: 0x51, readyForQuery: 0x5a };

export async function startCountingProxy(database: string): Promise<CountingProxy> {
  const url = new URL(database);
  const target = { host: url.hostname, port: Number(url.port) };
  const sockets = new Set<Socket>();
  let trips = 0;
  const server = createServer(client => {
    const upstream = connect(target);
    let awaited = 0;
    // The first message of a client has no type.
    const sent = readMessages(true, type => {
      if (type !== types.sync && type !== types.query) return;
      if (awaited === 0) trips += 1;
      awaited += 1;
    });
    const answered = readMessages(false, type => {
      if (type === types.readyForQuery && awaited > 0) awaited -= 1;
    });
    client.on('data', chunk => {
      sent(chunk);
      upstream.write(chunk);
    });
    let order = Promise.resolve();
    upstream.on('data', chunk => {
      // A client that sends several messages in one turn has sent all of them by then.
      const delay = sleep(1);
      order = order.then(async () => {
        await delay;
        answered(chunk);
        client.write(chunk);
      });
    });
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => void order.then(() => to.destroy()));
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

/** Returns a function that takes the bytes of one direction, and calls `onMessage` with the type of each message. */
function readMessages(hasStart: boolean, onMessage: (type: number) => void) {
  let rest = Buffer.alloc(0);
  let isStart = hasStart;
  return (chunk: Buffer): void => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      // A message has a type and a length, which counts itself and not the type.
      const typeBytes = isStart ? 0 : 1;
      if (rest.length < typeBytes + 4) return;
      const end = typeBytes + rest.readInt32BE(typeBytes);
      if (rest.length < end) return;
      if (!isStart) onMessage(rest[0] ?? 0);
      isStart = false;
      rest = rest.subarray(end);
    }
  };
}
