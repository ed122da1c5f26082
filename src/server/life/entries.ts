import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { endWith, rawAnswer } from '../../foundation/raw-answer.ts';
import type { Logger } from '../../foundation/telemetry.ts';
import { pathOfTarget } from '../../http/request-target.ts';
import type { Pairing } from '../../platform/pairing/pairing.ts';

/** Answers one request; Koa's own type. */
export type Answering = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** The entries into the server. An error on one of them ends that connection only. */
export interface Entries {
  /** Admits the waiting requests and all later ones. */
  open(answer: Answering, pairing: Pairing): void;
}

/** Attaches to the events of a server that does not listen yet. Requests wait until the entries are open. */
export function holdEntries(server: Server, log: Logger): Entries {
  const opened = Promise.withResolvers<Answering>();
  const give = (response: ServerResponse, work: Promise<void>): void => {
    work.catch(err => {
      log.error({ err }, 'cannot answer a request');
      response.destroy();
    });
  };
  const wait = (request: IncomingMessage, response: ServerResponse) =>
    give(
      response,
      opened.promise.then(answer => answer(request, response)),
    );
  server.on('request', wait);
  // CONNECT, the only method with a target in authority form. Node no longer listens to such a socket.
  server.on('connect', (_request, socket) => {
    endWith(socket, rawAnswer(405, 'CONNECT is not possible: this server is not a proxy'));
  });

  return {
    open(answer, pairing) {
      server.off('request', wait);
      server.on('request', (request, response) => give(response, answer(request, response)));
      server.on('upgrade', (request, socket, head) => {
        socket.on('error', () => {});
        request.url = pathOfTarget(request.url ?? '') ?? '/';
        try {
          if (!pairing.handleUpgrade(request, socket, head)) socket.destroy();
        } catch (err) {
          log.error({ err }, 'cannot pair with a platform');
          socket.destroy();
        }
      });
      opened.resolve(answer);
    },
  };
}
