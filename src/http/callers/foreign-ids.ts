import type { IncomingHttpHeaders } from 'node:http';

/** The ids that others have given to a request. A log line with them can be found by the logs of those others. */
export interface ForeignIds {
  /** `X-Request-Id` of the proxy in front. */
  readonly proxyRequestId?: string;
  /** The trace that the request is part of: 32 hex digits. */
  readonly traceId?: string;
}

const requestId = /^[\w.:=+/@-]{1,128}$/;
const traceparent = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/**
 * Returns the ids in the headers of a request. An `X-Request-Id` counts only where a proxy sets it: a client could
 * otherwise give the ids of others to its requests.
 * Source: W3C Trace Context, section 3.2.
 */
export function foreignIds(headers: IncomingHttpHeaders, trustedProxies: number): ForeignIds {
  const given = trustedProxies > 0 ? headers['x-request-id'] : undefined;
  const parent = headers.traceparent;
  if (given === undefined && parent === undefined) return {};
  const traceId = typeof parent === 'string' ? traceparent.exec(parent)?.[1] : undefined;
  return {
    ...(typeof given === 'string' && requestId.test(given) ? { proxyRequestId: given } : {}),
    ...(traceId === undefined ? {} : { traceId }),
  };
}
