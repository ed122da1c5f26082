import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy before a database, which may lose what it should pass on. */
export interface SilentProxy extends AsyncDisposable {
  /** The address of the database through the proxy. */
  readonly url: string;
  /** Passes nothing on from now on, and closes nothing. */
  silence(): void;
  /** Passes nothing on until `release`, and loses nothing. */
  hold(): void;
  release(): void;
  /** Passes on what new connections send. Earlier connections stay silent. */
  resume(): void;
  /** Ends all connections and accepts no others. */
  refuse(): void;
}

/** Starts a proxy on a free port of 127.0.0.1. */
export async function startSilentProxy(address: string): Promise<SilentProxy> {
  const target = new URL(address);
  const sockets = new Set<Socket>();
  const peers = new WeakMap<Socket, Socket>();
  let mode: 'passes' | 'silent' | 'refuses' = 'passes';
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer(client => {
    keep(client);
    if (mode === 'refuses') client.destroy();
    if (mode !== 'passes') return;
    const database = connect(Number(target.port), target.hostname);
    keep(database);
    peers.set(client, database);
    peers.set(database, client);
    client.pipe(database).pipe(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(address);
  url.port = String((server.address() as AddressInfo).port);
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: url.href,
    silence() {
      mode = 'silent';
      for (const socket of sockets) socket.unpipe().pause();
    },
    hold() {
      mode = 'silent';
      for (const socket of sockets) socket.unpipe().pause();
    },
    release() {
      mode = 'passes';
      for (const socket of sockets) {
        const peer = peers.get(socket);
        if (peer) socket.pipe(peer);
      }
    },
    resume() {
      mode = 'passes';
    },
    refuse() {
      mode = 'refuses';
      destroyAll();
    },
    async [Symbol.asyncDispose]() {
      destroyAll();
      server.close();
    },
  };
}
