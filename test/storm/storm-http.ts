import { basic } from '../hosted/push-client.ts';
import type { Login } from '../world/clients.ts';

/** A whole response. */
export interface StormResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
  /** The replica that answered the balancer: `127.0.0.1:<port>`. */
  readonly replica: string;
}

/** A response with another status than the expected ones. */
export class Refused extends Error {
  readonly status: number;
  /** The code in the registry dialect; `''` in the JSON API. */
  readonly code: string;

  constructor({ status, body }: StormResponse) {
    super(`${status}: ${body.subarray(0, 500)}`);
    this.status = status;
    this.code = /"code":"([A-Z_]+)"/.exec(body.subarray(0, 500).toString())?.[1] ?? '';
  }
}

// Longer than replicas wait for a leader.
const callMs = 60_000;
const streamMs = 300_000;
// Tokens live for five minutes.
const tokenMs = 120_000;
const readPath = /^\/v2\/(?!ct\/)(.+)\/(?:manifests|blobs|tags|referrers)\/[^/]+$/;

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** Sends requests of an account through the balancer. */
export class StormHttp {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #tokens = new Map<string, { readonly token: string; readonly until: number }>();

  constructor(url: string, { username, password }: Login) {
    this.url = url;
    this.#headers = basic(username, password);
  }

  /** Throws when the response breaks off, or does not come in time. */
  async send(path: string, init: RequestInit = {}): Promise<StormResponse> {
    const response = await fetch(new URL(path, this.url), {
      ...init,
      headers: { ...(await this.#loginFor(path, init)), accept: '*/*', ...init.headers },
      signal: AbortSignal.timeout(callMs),
    });
    const body = Buffer.from(await response.arrayBuffer());
    const { status, headers } = response;
    const replica = headers.get('x-replicas')?.split(', ').at(-1) ?? '';
    return { status, headers, body, replica };
  }

  /**
   * Reads and lists hosted repositories with a token, as clients of registries do: replicas answer these requests themselves. They hand on
   * those with a password.
   */
  async #loginFor(path: string, { method = 'GET' }: RequestInit): Promise<Record<string, string>> {
    const scope = scopeOf(path);
    if (method !== 'GET' || scope === undefined) return this.#headers;
    const known = this.#tokens.get(scope);
    if (known && known.until > performance.now()) return bearer(known.token);
    const url = new URL(`/v2/token?scope=${scope}`, this.url);
    const response = await fetch(url, {
      headers: this.#headers,
      signal: AbortSignal.timeout(callMs),
    });
    if (response.status !== 200) return this.#headers;
    const { token } = (await response.json()) as { token: string };
    this.#tokens.set(scope, { token, until: performance.now() + tokenMs });
    return bearer(token);
  }

  /** Throws {@link Refused} unless the response has one of the statuses, and arrives whole. */
  async expect(
    statuses: number | readonly number[],
    path: string,
    init?: RequestInit,
  ): Promise<StormResponse> {
    const response = await this.send(path, init);
    if ([statuses].flat().includes(response.status)) return response;
    throw new Refused(response);
  }

  /** Returns a response whose body is read while it comes. */
  open(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(new URL(path, this.url), {
      ...init,
      headers: { ...this.#headers, ...init.headers },
      signal: AbortSignal.timeout(streamMs),
    });
  }

  async json<T>(path: string, init?: RequestInit): Promise<T> {
    return JSON.parse((await this.expect(200, path, init)).body.toString());
  }

  /** Sends a JSON body. */
  async post<T>(path: string, body: object): Promise<T> {
    const headers = { 'content-type': 'application/json' };
    return this.json(path, { method: 'POST', headers, body: JSON.stringify(body) });
  }
}

/** Returns the scope of the token that reads a path; undefined for others. */
function scopeOf(path: string): string | undefined {
  if (path.startsWith('/v2/_catalog')) return 'registry:catalog:*';
  const [, repository] = readPath.exec(path) ?? [];
  return repository === undefined ? undefined : `repository:${repository}:pull`;
}
