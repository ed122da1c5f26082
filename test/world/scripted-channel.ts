import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Answers a request, or returns bytes to answer with; undefined for 404. */
export type ChannelScript = (
  request: IncomingMessage & { readonly url: string },
  response: ServerResponse,
) => Uint8Array | string | undefined | Promise<void>;

export interface ScriptedChannel {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Paths that were asked for, in order. */
  readonly requests: string[];
  script: ChannelScript;
  stop(): Promise<void>;
}

/** A server whose answers a test scripts, for faults that a real channel does not show. */
export async function startScriptedChannel(
  t: { after(stop: () => Promise<void>): void },
  script: ChannelScript,
): Promise<ScriptedChannel> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    requests.push(path);
    const reply = channel.script(Object.assign(request, { url: path }), response);
    if (reply instanceof Promise) return;
    if (reply === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-length': Buffer.byteLength(reply) }).end(reply);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    server.closeAllConnections();
    server.close();
  };
  const channel: ScriptedChannel = { url: `http://127.0.0.1:${port}`, requests, script, stop };
  t.after(stop);
  return channel;
}
