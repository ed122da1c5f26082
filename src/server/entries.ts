import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { endWith, rawResponse } from '../foundation/responses.ts';
import type { Logger } from '../foundation/telemetry/index.ts';
import { pathOfTarget } from '../http/index.ts';

/** What answers the requests that enter the server. */
export interface Entry {
  /** Answers one request; Koa's own type. */
  readonly respond: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  /** Takes over a connection for another protocol. Returns false, without any effect, when it does not know the path. */
  readonly handleUpgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean;
  /** Returns true for a request whose body is not wanted: its sender keeps it for another server. Absent: there is none. */
  readonly refusesBody?: (request: IncomingMessage) => boolean;
}

/** The entries into the server. An error on one of them ends that connection only. */
export interface Entries {
  /** Admits the waiting requests and all later ones. Called again, it leads later requests elsewhere. */
  open(entry: Entry): void;
}

/** Attaches to the events of a server that does not listen yet. Requests wait until the entries are open. */
export function holdEntries(server: Server, log: Logger): Entries {
  const opened = Promise.withResolvers<void>();
  let entry: Entry | undefined;
  const pass = (response: ServerResponse, to: (entry: Entry) => Promise<void>): void => {
    const work = entry
      ? to(entry)
      : opened.promise.then(() =>
          // The steps of a response count a request until its response closes. It does so only once.
          response.closed || !entry ? undefined : to(entry),
        );
    work.catch(err => {
      log.error({ err }, 'cannot answer a request');
      response.destroy();
    });
  };
  server.on('request', (request, response) => {
    pass(response, ({ respond }) => respond(request, response));
  });
  // Without this, Node asks for every body at once.
  server.on('checkContinue', (request, response) => {
    // Only an open entry knows whose the body is.
    pass(response, async ({ refusesBody }) => {
      if (!refusesBody?.(request)) response.writeContinue();
    });
    // As Node does: others count requests by this event, such as the stop of the server.
    server.emit('request', request, response);
  });
  // CONNECT, the only method with a target in authority form. Node no longer listens to such a socket.
  server.on('connect', (_request, socket) => {
    endWith(socket, rawResponse(405, 'CONNECT is not possible: this server is not a proxy'));
  });
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    socket.on('error', () => {});
    request.url = pathOfTarget(request.url ?? '') ?? '/';
    try {
      if (!entry?.handleUpgrade(request, socket, head)) socket.destroy();
    } catch (err) {
      log.error({ err }, 'cannot pair with a platform');
      socket.destroy();
    }
  };

  return {
    open(next) {
      // Until then, Node answers a request for another protocol like any other one.
      if (entry === undefined) server.on('upgrade', upgrade);
      entry = next;
      opened.resolve();
    },
  };
}
