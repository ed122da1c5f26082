import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault, type FaultOptions } from '../foundation/fault.ts';
import { type JsonShape, parseShaped } from '../foundation/json-shape.ts';
import type { RemoteHealth } from '../foundation/telemetry/index.ts';
import { unlessAborted } from '../foundation/work.ts';
import { type HttpRequest, readAll, type UpstreamResponse } from '../upstream/index.ts';
import {
  closedAddressIn,
  type RetryPolicy,
  retryAfterSeconds,
  withRetries,
} from '../upstream/transport/index.ts';
import type { Endpoint } from './endpoint.ts';
import { tokenKey } from './grants/grant-key.ts';

/** Carries a request to a platform. */
export type Carrier = (endpoint: Endpoint, request: HttpRequest) => Promise<UpstreamResponse>;

/** A call to the API of a platform. */
interface Call {
  readonly endpoint: Endpoint;
  readonly method: 'GET' | 'POST';
  /** Path below the base of the API, such as `/user-info`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly form?: Readonly<Record<string, string>>;
  /** Sent as the bearer token. */
  readonly token?: string | undefined;
  /** The token whose limits the call counts against. It is not sent. */
  readonly onBehalfOf: string;
  /** True for a call that somebody repeats later in any case: it is not retried. */
  readonly isTriedOnce?: boolean | undefined;
}

/** The platform's response: success (2xx), rejection (401, 403) or not found (404). */
export interface Reply {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** The body, if it is JSON. */
  readonly document: unknown;
}

/**
 * Makes a call when the limits allow it, with retries where they may help. Throws a `Fault` for any result that is not
 * a {@link Reply}.
 */
export type Calls = (call: Call) => Promise<Reply>;

interface CallsDeps {
  readonly carrier: Carrier;
  readonly line: CallLine;
  readonly retry: RetryPolicy;
  /** Timeout for the first response byte (ms). */
  readonly timeoutMs: number;
  readonly health: RemoteHealth;
}

const apiVersion = '1';
const largestResponse = 4 * 1024 * 1024;
// Room for a page of a thousand credentials.
const responseShape: JsonShape = { maxValues: 30_000, maxDepth: 32, maxEscapes: 500_000 };
const longestWords = 300;

/** Source: platform specification, sections 4, 5 and 7. */
export function createCalls({ carrier, line, retry, timeoutMs, health }: CallsDeps): Calls {
  const attempt = async (call: Call): Promise<UpstreamResponse & { readonly text: Buffer }> => {
    const leave = await line.enter(tokenKey(call.endpoint, call.onBehalfOf));
    try {
      const signal = AbortSignal.timeout(2 * timeoutMs);
      const response = await carrier(call.endpoint, {
        ...httpRequestOf(call),
        headersMs: timeoutMs,
        signal,
      });
      const text = await readAll(
        response.body,
        largestResponse,
        `The response of ${call.endpoint.host}`,
      );
      return { ...response, text };
    } finally {
      leave();
    }
  };

  return async call => {
    const { host } = call.endpoint;
    const began = performance.now();
    let text: Buffer = Buffer.alloc(0);
    const policy = call.isTriedOnce ? { ...retry, attempts: 1 } : retry;
    const response = await withRetries(policy, undefined, async () => {
      const whole = await attempt(call);
      text = whole.text;
      return whole;
    }).catch(error => {
      const fault = faultOfFailedCall(error, host);
      // A call that waited for its turn too long never reached the platform.
      if (fault.kind !== 'too-many-requests') health.failure('platform', host, fault.message);
      throw fault;
    });
    const { status, headers } = response;
    const document = parseJson(text);
    const isReply = (status >= 200 && status < 300) || [401, 403, 404].includes(status);
    if (isReply || status === 400) health.success('platform', host, performance.now() - began);
    if (isReply) return { status, headers, document };
    const secrets = [call.token, call.onBehalfOf, ...Object.values(call.form ?? {})];
    const fault = faultOfReply(
      ...([status, wordsOf(document, secrets), host, retryAfterSeconds(response)] as const),
    );
    if (status !== 400) health.failure('platform', host, fault.message);
    throw fault;
  };
}

function httpRequestOf({ endpoint, method, path, query, form, token }: Call): HttpRequest {
  const url = new URL(`${endpoint.base}${path}`);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  const headers = {
    accept: 'application/json',
    'accept-version': apiVersion,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
  };
  const body = form && new URLSearchParams(form).toString();
  return { url, method, headers, ...(body === undefined ? {} : { body }) };
}

function parseJson(text: Buffer): unknown {
  try {
    return parseShaped(text, responseShape);
  } catch {
    return undefined;
  }
}

/** Returns the platform's own message on one line, without any secret that it was sent. */
function wordsOf(
  document: unknown,
  secrets: ReadonlyArray<string | undefined>,
): string | undefined {
  const message = (document as { message?: unknown } | null | undefined)?.message;
  if (typeof message !== 'string' || message === '') return undefined;
  const clean = secrets
    .filter(secret => secret !== undefined && secret.length > 3)
    .reduce<string>((words, secret) => words.replaceAll(secret ?? '', '***'), message);
  return clean
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, longestWords)
    .trim();
}

const callPhase = 'credentials';

const lateCodes = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);
const reasonsOfCodes: Readonly<Record<string, string>> = {
  ENOTFOUND: 'has no address',
  EAI_AGAIN: 'could not be looked up',
  ECONNREFUSED: 'refused the connection',
  ECONNRESET: 'closed the connection',
  UND_ERR_SOCKET: 'closed the connection',
};

/**
 * Returns the fault for a call without a response. A problem that lasts until somebody fixes it has its own
 * {@link Fault}.
 */
function faultOfFailedCall(error: unknown, host: string): Fault {
  if (error instanceof Fault && !closedAddressIn(error)) return error;
  const options: FaultOptions = { phase: callPhase, cause: error };
  const codes = codesOf(error);
  if (isTimeout(error) || codes.some(code => lateCodes.has(code))) {
    return new Fault(
      'upstream-timeout',
      `The platform ${host} did not answer in time: try again later`,
      options,
    );
  }
  const certificate = codes.find(code => /CERT|SIGNATURE|ISSUER|ALTNAME/.test(code));
  const reason = certificate
    ? `has a certificate that is not trusted (${certificate}): for a private authority the operator sets registries.${host}.ca`
    : `${codes.map(code => reasonsOfCodes[code]).find(text => text) ?? 'could not be reached'}: try again later, or check its address`;
  const isLasting = certificate !== undefined || codes.includes('ENOTFOUND');
  return new Fault(
    isLasting ? 'upstream-unusable' : 'unavailable',
    `The platform ${host} ${reason}`,
    options,
  );
}

/** Returns the fault for a response that neither succeeds nor rejects the token. */
function faultOfReply(
  status: number,
  said: string | undefined,
  host: string,
  retryAfterSeconds: number | undefined,
): Fault {
  const options: FaultOptions = {
    phase: callPhase,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
  const words = said === undefined ? '' : `: ${said}`;
  if (status === 400) {
    return new Fault(
      'bad-request',
      `The platform ${host} refused the request (400)${words}`,
      options,
    );
  }
  if (status === 429 || status === 503) {
    return new Fault(
      'unavailable',
      `The platform ${host} is too busy at the moment (${status}): try again later`,
      options,
    );
  }
  if (status >= 300 && status < 400) {
    return new Fault(
      'upstream-unusable',
      `The platform ${host} redirects to another address (${status}), and Sluice does not follow redirects with a token: use the address of its API`,
      options,
    );
  }
  return new Fault(
    'upstream',
    `The platform ${host} failed (${status})${words}: try again later`,
    options,
  );
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === 'TimeoutError';
}

/** Errors of transports wrap the informative error. */
function codesOf(error: unknown): string[] {
  const codes: string[] = [];
  let current = error;
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    if ('code' in current) codes.push(String(current.code));
    current = current instanceof AggregateError ? current.errors[0] : current.cause;
  }
  return codes;
}

/** A limit: at most `count` calls within any `ms` milliseconds. */
export interface Window {
  readonly count: number;
  readonly ms: number;
}

/** A queue for each token, in which calls wait until the platform's limits admit them, in order of arrival. */
interface CallLine {
  /**
   * Resolves when the call may be made, with a function that the caller runs when the response arrives: until then, it
   * is unknown when the platform counted the call. Rejects with the signal's reason, and with a {@link Fault} (429)
   * when the wait would be too long.
   */
  enter(token: string, signal?: AbortSignal): Promise<() => void>;
}

interface CallLineDeps {
  readonly windows: readonly Window[];
  readonly longestWaitMs: number;
  /** Milliseconds of any clock that never goes back. */
  readonly now?: () => number;
  readonly pause?: (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;
}

/** A call that was made or is waiting. */
interface Turn {
  /** When the call was or will be made, as far as is known. */
  start: number;
  /** When the response arrived. */
  over: number | undefined;
  /** Resolves when the response arrives; set while a call waits for that. */
  ending: PromiseWithResolvers<void> | undefined;
}

interface Line {
  /** The oldest call is first. */
  turns: Turn[];
  /** Resolves when the last of these calls has begun. */
  begun: Promise<void>;
}

const maxTokens = 10_000;

/** Source: platform specification, section 8: its limits apply to each access token, over all requests. */
export function createCallLine(deps: CallLineDeps): CallLine {
  const { windows, longestWaitMs, now = () => performance.now(), pause = waitMs } = deps;
  const mostCalls = Math.max(...windows.map(({ count }) => count));
  const lines = boundedCache<string, Line>(maxTokens);

  /** Returns when the next call may be made if all earlier calls get their responses at once. */
  const earliest = (turns: readonly Turn[], at: number): number =>
    Math.max(
      at,
      // A call never overtakes the calls that already wait.
      turns.at(-1)?.start ?? at,
      ...windows.map(({ count, ms }) => (turns.at(-count)?.start ?? Number.NEGATIVE_INFINITY) + ms),
    );

  /**
   * Waits until the earlier calls have been over for long enough. Two of any count + 1 calls are then that far apart,
   * however long each was under way.
   */
  const stand = async (before: ReadonlyArray<readonly [Turn, number]>, signal?: AbortSignal) => {
    for (const [turn, ms] of before) {
      if (turn.over === undefined) {
        turn.ending ??= Promise.withResolvers<void>();
        await unlessAborted(turn.ending.promise, signal);
      }
      for (;;) {
        const left = (turn.over ?? 0) + ms - now();
        if (left <= 0) break;
        await pause(left, signal);
      }
    }
  };

  return {
    async enter(token, signal) {
      signal?.throwIfAborted();
      const line = lines.get(token) ?? { turns: [], begun: Promise.resolve() };
      const { turns } = line;
      const at = now();
      const start = earliest(turns, at);
      if (start - at > longestWaitMs) {
        const seconds = Math.ceil((start - at) / 1000);
        throw new Fault(
          'too-many-requests',
          `Too many requests with this platform token are waiting for the rate limit of the platform: try again in ${seconds} s`,
          { phase: 'credentials', retryAfterSeconds: seconds },
        );
      }
      const before = windows.flatMap(({ count, ms }) => {
        const turn = turns.at(-count);
        return turn ? [[turn, ms] as const] : [];
      });
      const own: Turn = { start, over: undefined, ending: undefined };
      const previous = line.begun;
      const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
      line.begun = begun;
      turns.push(own);
      if (turns.length > 2 * mostCalls) turns.splice(0, turns.length - mostCalls);
      lines.set(token, line);
      const leave = () => {
        own.over ??= now();
        own.ending?.resolve();
      };
      try {
        await stand(before, signal);
        await unlessAborted(previous, signal);
        own.start = now();
      } catch (error) {
        leave();
        throw error;
      } finally {
        begin();
      }
      return leave;
    },
  };
}

const waitMs = (ms: number, signal: AbortSignal | undefined) =>
  sleep(Math.ceil(ms), undefined, signal ? { signal } : {});
