import type { RemoteHealth } from '../../foundation/telemetry/index.ts';
import { type JsonShape, parseShaped } from '../../foundation/text/index.ts';
import { type HttpRequest, readAll, type UpstreamResponse } from '../../upstream/index.ts';
import {
  type RetryPolicy,
  retryAfterSeconds,
  withRetries,
} from '../../upstream/transport/index.ts';
import type { Endpoint } from '../endpoint.ts';
import { tokenKey } from '../grants/grant-key.ts';
import { faultOfFailedCall, faultOfReply } from './call-failure.ts';
import type { CallLine } from './call-line.ts';

/** Carries a request to a platform. */
export type Carrier = (endpoint: Endpoint, request: HttpRequest) => Promise<UpstreamResponse>;

/** A call to the API of a platform. */
export interface Call {
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

export interface CallsDeps {
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
        `The answer of ${call.endpoint.host}`,
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
    const response = await withRetries(retry, undefined, async () => {
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
