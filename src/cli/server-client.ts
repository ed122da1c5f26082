import { readFileSync } from 'node:fs';
import http from 'node:http';
import tls from 'node:tls';
import { terminalLines } from '../foundation/text.ts';
import { CommandError, type Option, text, type Values } from './command/command.ts';

/** The server refused the request; the message is the server's, and safe to print. */
export class RefusedError extends CommandError {
  /** Status code of the response. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(terminalLines(message));
    this.status = status;
  }
}

/** The address of a server that was started by `npm start`. */
const defaultServer = 'http://127.0.0.1:9090';

/** Returns the address of the server: `--server`, then `SLUICE_SERVER`, then the default. */
export function serverAddress(values: Values): string {
  return text(values, 'server') ?? (process.env.SLUICE_SERVER || defaultServer);
}

/**
 * Sends a JSON body and returns the JSON response. Throws {@link RefusedError} when the server refuses the request, and
 * {@link CommandError} when it does not answer.
 */
export function post(values: Values, path: string, body: object): Promise<unknown> {
  return askForJson(values, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** Sends POST without a body and returns the JSON response. Throws like {@link post}. */
export function act(
  values: Values,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<unknown> {
  return askForJson(values, path, { method: 'POST', headers });
}

/** Returns the JSON response at a path. Throws like {@link post}. */
export function get(
  values: Values,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  return askForJson(values, path, { headers });
}

/**
 * Sends DELETE and returns the JSON response. Throws like {@link post}.
 *
 * @param headers default: the token in `SLUICE_TOKEN`
 */
export function remove(
  values: Values,
  path: string,
  headers: Readonly<Record<string, string>> = loginHeaders(process.env.SLUICE_TOKEN, undefined),
): Promise<unknown> {
  return askForJson(values, path, { method: 'DELETE', headers });
}

/** Returns the header of a login: with the token, else with the account, else none. */
export function loginHeaders(
  token: string | undefined,
  account: string | undefined,
): Readonly<Record<string, string>> {
  if (token) return { authorization: `Bearer ${token}` };
  return account ? { authorization: `Basic ${Buffer.from(account).toString('base64')}` } : {};
}

/** Returns the bytes at a path as a stream. Throws like {@link post}, and the reason of the signal. */
export async function stream(
  values: Values,
  path: string,
  signal?: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  const response = await ask(values, path, { signal: signal ?? null });
  if (response.ok && response.body) return response.body;
  throw refusedBy(await response.text(), response.status);
}

async function askForJson(values: Values, path: string, init: RequestInit): Promise<unknown> {
  return readJson(await ask(values, path, init));
}

/** Returns the JSON value of a response, undefined for one without a body. Throws like {@link post}. */
export async function readJson(response: Response): Promise<unknown> {
  const content = await response.text();
  const value = parsedJson(content);
  if (response.status === 204 || (response.ok && value !== undefined)) return value;
  throw refusedBy(content, response.status);
}

function ask(values: Values, path: string, init: RequestInit): Promise<Response> {
  return askServer(serverAddress(values), path, init);
}

/** Returns the response at a path of a server. Throws {@link CommandError} when the server does not answer. */
export async function askServer(
  server: string,
  path: string,
  init: RequestInit,
): Promise<Response> {
  if (!URL.canParse(path, server)) {
    throw new CommandError(
      `The address of the server '${server}' is not a URL: write http://HOST:PORT or https://HOST`,
      2,
    );
  }
  trustOwnAuthority();
  useProxies();
  try {
    return await fetch(new URL(path, server), init);
  } catch (error) {
    init.signal?.throwIfAborted();
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = (cause instanceof Error ? cause.message : String(cause)).replace(/;.*$/s, '');
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
    if (/CERT|SIGNATURE|ISSUER/.test(code)) {
      throw new CommandError(
        `The certificate of ${server} is not trusted (${why}). Set SLUICE_CA to the PEM file of its authority, or of the certificate itself if it is self-signed`,
      );
    }
    throw new CommandError(
      `No response from ${server} (${why}). Start the server with 'npm start', or specify its address with --server or SLUICE_SERVER`,
    );
  }
}

function refusedBy(content: string, status: number): RefusedError {
  const message = (parsedJson(content) as { message?: unknown } | undefined)?.message;
  return new RefusedError(
    typeof message === 'string'
      ? message
      : `The server answered ${status} without an error message: is it a Sluice server?`,
    status,
  );
}

function parsedJson(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

let trustedProxies: string | undefined;

/**
 * Makes this process trust the certificate authority in the PEM file of `SLUICE_CA`, in addition to the public ones.
 * Throws {@link CommandError} for an unusable file.
 */
function trustOwnAuthority(): void {
  const path = process.env.SLUICE_CA;
  if (!path || path === trustedProxies) return;
  if (!('setDefaultCACertificates' in tls)) {
    throw new CommandError(
      `SLUICE_CA requires Node 24, and this is Node ${process.versions.node}: set NODE_EXTRA_CA_CERTS=${path} instead`,
      2,
    );
  }
  try {
    tls.setDefaultCACertificates([...tls.getCACertificates('default'), readFileSync(path, 'utf8')]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      `SLUICE_CA: cannot use ${path} as a PEM file of a certificate (${why})`,
      2,
    );
  }
  trustedProxies = path;
}

/** The hosts of servers on this machine, which no proxy reaches. */
export const ownMachine = ['localhost', '127.0.0.1', '[::1]'];
let isDone = false;

/**
 * Makes this process honour `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, except for servers on the same machine. Throws
 * {@link CommandError} for an invalid proxy.
 */
export function useProxies(environment: NodeJS.ProcessEnv = process.env): void {
  if (isDone) return;
  isDone = true;
  const variable = (name: string) => environment[name] || environment[name.toLowerCase()];
  const [httpsProxy, httpProxy] = [variable('HTTPS_PROXY'), variable('HTTP_PROXY')];
  if (!httpsProxy && !httpProxy) return;
  if (!('setGlobalProxyFromEnv' in http)) {
    const node = process.versions.node;
    console.error(
      `HTTPS_PROXY and HTTP_PROXY are ignored: they require Node 24, and this is Node ${node}`,
    );
    return;
  }
  const direct = [variable('NO_PROXY') ?? '', ...ownMachine].filter(entry => entry !== '');
  try {
    http.setGlobalProxyFromEnv({
      ...(httpsProxy ? { https_proxy: httpsProxy } : {}),
      ...(httpProxy ? { http_proxy: httpProxy } : {}),
      no_proxy: direct.join(','),
    });
  } catch {
    // Without the message of Node: it shows the variable, which may contain a password.
    throw new CommandError(
      'HTTPS_PROXY or HTTP_PROXY is not the http or https URL of a proxy. Set it to a URL such as http://proxy.example:3128',
      2,
    );
  }
}

/** The options of every command that acts for a user. */
export const claimOptions: Readonly<Record<string, Option>> = {
  workspace: {
    type: 'string',
    value: 'NAME|NUMBER',
    description: 'Workspace whose registry credentials are tried first. Requires SLUICE_TOKEN',
  },
};

/**
 * Returns the members of a request that identify the caller. The token comes from the environment, where other users
 * of the machine cannot see it. Throws {@link CommandError} for a workspace without a token, and for an unknown
 * workspace.
 */
export async function claimOf(values: Values) {
  const token = process.env.SLUICE_TOKEN || undefined;
  const workspace = text(values, 'workspace');
  if (workspace === undefined) return { platformAccessToken: token };
  if (token === undefined) {
    throw new CommandError(
      '--workspace requires the access token of a member: set SLUICE_TOKEN',
      2,
    );
  }
  const headers = { authorization: `Bearer ${token}` };
  const number = await ownWorkspace(workspace, path => get(values, `/platform${path}`, headers));
  return { platformAccessToken: token, platformWorkspaceId: number };
}

interface WorkspaceList {
  readonly orgsAndWorkspaces: readonly {
    readonly workspaceId: number | null;
    readonly workspaceName: string | null;
  }[];
}

/**
 * Returns the number of a workspace of a user.
 *
 * @param workspace its number or its name
 * @param ask asks the platform of the server as the user
 */
export async function ownWorkspace(
  workspace: string,
  ask: (path: string) => Promise<unknown>,
): Promise<string> {
  if (/^\d+$/.test(workspace)) return workspace;
  const { user } = (await ask('/user-info')) as { user: { id: number } };
  const { orgsAndWorkspaces } = (await ask(`/user/${user.id}/workspaces`)) as WorkspaceList;
  const found = orgsAndWorkspaces.find(({ workspaceName }) => workspaceName === workspace);
  if (found?.workspaceId != null) return String(found.workspaceId);
  throw new CommandError(
    `You are not a member of a workspace '${workspace}' on this server. For a workspace of another platform, give its number`,
  );
}
