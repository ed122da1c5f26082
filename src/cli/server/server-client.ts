import { CommandError, type Option, text, type Values } from '../command.ts';
import { trustOwnAuthority } from './authority.ts';
import { useProxies } from './use-proxies.ts';

/** The option of every command that talks to a server. */
export const serverOption: Option = {
  type: 'string',
  value: 'URL',
  description:
    'The server. Default: SLUICE_URL, else http://127.0.0.1:9090. SLUICE_CA names the PEM file of its certificate authority',
};

export const jsonOption: Option = {
  type: 'boolean',
  description: 'Print the whole answer as JSON',
};

/** What the server does not take, in its words. */
export class RefusedError extends CommandError {
  /** Of HTTP. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** Where `npm start` listens. */
export const defaultServer = 'http://127.0.0.1:9090';

/** Sends a JSON body and returns the JSON answer. Throws {@link RefusedError} with the server's words, {@link CommandError} without any. */
export function post(values: Values, path: string, body: object): Promise<unknown> {
  return json(values, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** The JSON answer at a path. Throws like {@link post}. */
export function get(values: Values, path: string): Promise<unknown> {
  return json(values, path, {});
}

/** Sends DELETE in the right of `SLUICE_TOKEN`, and returns the JSON answer. Throws like {@link post}. */
export function remove(values: Values, path: string): Promise<unknown> {
  const token = process.env.SLUICE_TOKEN || undefined;
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return json(values, path, { method: 'DELETE', headers });
}

/** The bytes at a path, as they come. Throws like {@link post}, and the reason of the signal. */
export async function stream(
  values: Values,
  path: string,
  signal?: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  const answer = await ask(values, path, { signal: signal ?? null });
  if (answer.ok && answer.body) return answer.body;
  throw refused(await answer.text(), answer.status);
}

async function json(values: Values, path: string, init: RequestInit): Promise<unknown> {
  return readJson(await ask(values, path, init));
}

/** The JSON value of an answer, undefined for one without a body. Throws like {@link post}. */
export async function readJson(answer: Response): Promise<unknown> {
  const content = await answer.text();
  const value = parse(content);
  if (answer.status === 204 || (answer.ok && value !== undefined)) return value;
  throw refused(content, answer.status);
}

function ask(values: Values, path: string, init: RequestInit): Promise<Response> {
  const server = text(values, 'server') ?? process.env.SLUICE_URL ?? defaultServer;
  return askServer(server, path, init, "Start it with 'npm start', or name it with --server");
}

/** The answer at a path of a server; throws {@link CommandError} with the advice when there is none. */
export async function askServer(
  server: string,
  path: string,
  init: RequestInit,
  advice: string,
): Promise<Response> {
  if (!URL.canParse(path, server)) throw new CommandError(`'${server}' is not a URL`, 2);
  trustOwnAuthority();
  useProxies();
  try {
    return await fetch(new URL(path, server), init);
  } catch (error) {
    init.signal?.throwIfAborted();
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(`No answer from ${server} (${why}): is it running? ${advice}`);
  }
}

function refused(content: string, status: number): RefusedError {
  const message = (parse(content) as { message?: unknown } | undefined)?.message;
  return new RefusedError(
    typeof message === 'string' ? message : `The server answered ${status}: is it Sluice?`,
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
