import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One call as it came in. */
export interface SeenCall {
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly token: string;
}

export type Script = (call: SeenCall, response: ServerResponse) => unknown;

export interface ScriptedPlatform extends AsyncDisposable {
  /** Address of its API, which is under `/api`. */
  readonly url: string;
  readonly host: string;
  readonly calls: SeenCall[];
  count(part: string): number;
  /** Valid tokens, and the response of `GET /user-info` for each. */
  readonly users: Map<string, { id: number; userName: string; email: string | null }>;
  /** Entries by `<user id>` or `<user id>/<workspace id>`; without an entry there is no right (403). */
  readonly credentials: Map<string, Array<Record<string, unknown>>>;
  /** Keys by id; without an entry there is no right (403). */
  readonly keys: Map<string, unknown>;
  /** Calls whose `METHOD path` holds the text go to the script; the latest wins. */
  on(part: string, script: Script): void;
}

/** A platform on a free port of 127.0.0.1, with scripted behaviour that real platforms do not have. */
export async function startScriptedPlatform(): Promise<ScriptedPlatform> {
  const calls: SeenCall[] = [];
  const scripts: Array<{ part: string; script: Script }> = [];
  const users: ScriptedPlatform['users'] = new Map();
  const credentials: ScriptedPlatform['credentials'] = new Map();
  const keys: ScriptedPlatform['keys'] = new Map();

  const serve: Script = (call, response) => {
    const user = users.get(call.token);
    if (!user) return send(response, 403, undefined);
    if (call.path === '/api/user-info') return send(response, 200, { user });
    const workspace = call.query.get('workspaceId');
    if (call.path === '/api/credentials') {
      const entries = credentials.get(
        workspace === null ? `${user.id}` : `${user.id}/${workspace}`,
      );
      return entries
        ? send(response, 200, { credentials: entries })
        : send(response, 403, undefined);
    }
    const id = /^\/api\/credentials\/([^/]+)\/keys$/.exec(call.path)?.[1];
    if (id === undefined) return send(response, 403, undefined);
    return keys.has(id)
      ? send(response, 200, { keys: keys.get(id) })
      : send(response, 403, undefined);
  };

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const url = new URL(request.url ?? '/', 'http://localhost');
    const call: SeenCall = {
      at: performance.now(),
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
      token: (request.headers.authorization ?? '').replace(/^Bearer /, ''),
    };
    calls.push(call);
    const name = `${call.method} ${call.path}`;
    const script = scripts.findLast(({ part }) => name.includes(part))?.script ?? serve;
    script(call, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    url: `http://${host}/api`,
    host,
    calls,
    count: part => calls.filter(({ method, path }) => `${method} ${path}`.includes(part)).length,
    users,
    credentials,
    keys,
    on: (part, script) => void scripts.push({ part, script }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Answers with JSON, or with no body. */
export function send(
  response: ServerResponse,
  status: number,
  document: unknown,
  headers: Record<string, string | string[]> = {},
): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' });
  response.end(document === undefined ? '' : JSON.stringify(document));
}
