import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';

/** Answers a request instead of the store, or passes it on and does something with the response. */
export type StoreFault = (
  req: IncomingMessage,
  res: ServerResponse,
  pass: () => Promise<void>,
) => void;

/** Passes requests on to the store, as long as no fault takes them. */
export async function startStoreRelay(url: string) {
  const to = new URL(url);
  let fault: { isFor: (req: IncomingMessage) => boolean; run: StoreFault } | undefined;
  let connections = 0;
  const requests: string[] = [];
  const server = createServer((req, res) => {
    requests.push(`${req.method} ${req.url}`);
    const options = { host: to.hostname, port: to.port, path: req.url, headers: req.headers };
    const upstream = () => {
      const asked = request({ ...options, method: req.method ?? 'GET' });
      asked.on('error', () => res.destroy());
      req.pipe(asked);
      return once(asked, 'response') as Promise<[IncomingMessage]>;
    };
    const pass = async () => {
      const [response] = await upstream();
      res.writeHead(response.statusCode ?? 500, response.headers);
      response.pipe(res);
    };
    if (fault?.isFor(req)) {
      fault.run(req, res, async () => {
        const [response] = await upstream();
        await response.toArray();
      });
    } else pass().catch(() => res.destroy());
  });
  // A store that keeps connections longer than its clients do.
  server.keepAliveTimeout = 0;
  server.on('connection', () => {
    connections += 1;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fail(isFor: (req: IncomingMessage) => boolean, run: StoreFault) {
      fault = { isFor, run };
    },
    heal() {
      fault = undefined;
    },
    /** Returns how many connections are open. */
    countOpen: () => promisify(server.getConnections).call(server),
    /** Returns what came since the last call. */
    taken() {
      const taken = { connections, requests: requests.splice(0) };
      connections = 0;
      return taken;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
