import { readFileSync } from 'node:fs';
import tls from 'node:tls';
import { terminalLines } from '../../foundation/text/terminal-text.ts';
import { CommandError, text, type Values } from '../command/command.ts';
import { useProxies } from './use-proxies.ts';

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
  return json(values, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** Returns the JSON response at a path. Throws like {@link post}. */
export function get(
  values: Values,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  return json(values, path, { headers });
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
  return json(values, path, { method: 'DELETE', headers });
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
  throw refused(await response.text(), response.status);
}

async function json(values: Values, path: string, init: RequestInit): Promise<unknown> {
  return readJson(await ask(values, path, init));
}

/** Returns the JSON value of a response, undefined for one without a body. Throws like {@link post}. */
export async function readJson(response: Response): Promise<unknown> {
  const content = await response.text();
  const value = parse(content);
  if (response.status === 204 || (response.ok && value !== undefined)) return value;
  throw refused(content, response.status);
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
      `No answer from ${server} (${why}). Start the server with 'npm start', or specify its address with --server or SLUICE_SERVER`,
    );
  }
}

function refused(content: string, status: number): RefusedError {
  const message = (parse(content) as { message?: unknown } | undefined)?.message;
  return new RefusedError(
    typeof message === 'string'
      ? message
      : `The server answered ${status} without an error message: is it a Sluice server?`,
    status,
  );
}

function parse(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

let trusted: string | undefined;

/**
 * Makes this process trust the certificate authority in the PEM file of `SLUICE_CA`, in addition to the public ones.
 * Throws {@link CommandError} for an unusable file.
 */
function trustOwnAuthority(): void {
  const path = process.env.SLUICE_CA;
  if (!path || path === trusted) return;
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
  trusted = path;
}
