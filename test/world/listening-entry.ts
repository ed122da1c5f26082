import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { type Entries, type Entry, holdEntries } from '../../src/server/entries.ts';

/** A server that listens on a free port of the loopback. */
export interface Listening extends Disposable {
  readonly server: Server;
  readonly entries: Entries;
  readonly url: URL;
}

/** Listens with entries that are not open yet. */
export async function listenStarting(): Promise<Listening> {
  const server = createServer();
  const entries = holdEntries(server, pino({ level: 'silent' }));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    server,
    entries,
    url: new URL(`http://127.0.0.1:${port}`),
    [Symbol.dispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Listens with the entry of a replica. */
export async function listenWith(
  respond: RequestListener,
  further: Partial<Entry> = {},
): Promise<Listening> {
  const starting = await listenStarting();
  starting.entries.open({
    respond: async (request, response) => void (await respond(request, response)),
    handleUpgrade: () => false,
    ...further,
  });
  return starting;
}
