import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A message that a receiver got. */
export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: { readonly [member: string]: unknown };
}

/** A real HTTP server for webhooks. */
export interface Receiver extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly received: readonly Received[];
  /** How it answers from now on. Default: 204. */
  answer: (response: ServerResponse, message: Received) => void;
}

export async function startReceiver(port = 0): Promise<Receiver> {
  const received: Received[] = [];
  const receiver = {
    received,
    answer: (response: ServerResponse, _message: Received): void => {
      response.writeHead(204).end();
    },
  };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const message = { headers: request.headers, text, body: JSON.parse(text) as Received['body'] };
    received.push(message);
    receiver.answer(response, message);
  });
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve));
  const own = (server.address() as AddressInfo).port;
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${own}/hook`,
    port: own,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  });
}
