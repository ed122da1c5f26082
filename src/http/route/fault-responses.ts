import { Fault, type FaultKind } from '../../foundation/fault.ts';
import type { Declaration } from './declaration.ts';

/** Headers of responses, by their name in the OpenAPI document. */
export const headers = {
  RateLimitLimit: {
    name: 'RateLimit-Limit',
    description: 'On routes with a rate limit: calls that the limit allows in its time span',
    schema: { type: 'integer' },
  },
  RateLimitRemaining: {
    name: 'RateLimit-Remaining',
    description: 'On routes with a rate limit: remaining calls',
    schema: { type: 'integer' },
  },
  RateLimitReset: {
    name: 'RateLimit-Reset',
    description:
      'On routes with a rate limit: seconds until all calls are available again; with none left, until the next one is',
    schema: { type: 'integer' },
  },
  RetryAfter: {
    name: 'Retry-After',
    description: 'Seconds to wait before the next attempt',
    schema: { type: 'integer' },
  },
  RequestId: {
    name: 'X-Request-Id',
    description: 'Id of this request in the log of the server',
    schema: { type: 'string' },
  },
  Challenge: {
    name: 'WWW-Authenticate',
    description: 'The login that the server accepts',
    schema: { type: 'string' },
  },
} as const;

export type HeaderName = keyof typeof headers;

export const limitHeaderNames: readonly HeaderName[] = [
  'RateLimitLimit',
  'RateLimitRemaining',
  'RateLimitReset',
];

interface FaultResponse {
  /** Name in the OpenAPI document. */
  readonly name: string;
  readonly about: string;
  readonly headers?: readonly HeaderName[];
}

/** Failures by status, as the OpenAPI document describes them. */
export const faultResponses: Readonly<Record<number, FaultResponse>> = {
  400: {
    name: 'BadRequest',
    about: 'The request is malformed or cannot be fulfilled',
  },
  401: {
    name: 'Unauthorized',
    about: 'A login is required, or it is wrong',
    headers: ['Challenge'],
  },
  403: { name: 'Denied', about: 'The caller has no right to this' },
  404: { name: 'NotFound', about: 'A resource that the path or the body names does not exist' },
  408: { name: 'TooSlow', about: 'The body did not arrive in time' },
  409: { name: 'Conflict', about: 'A resource that the body names already exists, or is in use' },
  413: { name: 'TooLarge', about: 'The body is too large' },
  415: { name: 'UnsupportedMediaType', about: 'The body is not JSON' },
  429: {
    name: 'TooManyRequests',
    about: 'A limit is reached: repeat the request after the time in `Retry-After`',
  },
  500: {
    name: 'InternalError',
    about: 'An error of the server. The log has the details under the error id',
  },
  501: { name: 'NotProvided', about: 'This server does not support the request' },
  502: { name: 'UpstreamFailed', about: 'Another registry or a platform failed' },
  503: {
    name: 'Unavailable',
    about: 'The server cannot do this at the moment: repeat the request',
  },
  504: { name: 'UpstreamTimeout', about: 'Another registry or a platform did not answer in time' },
  507: { name: 'StorageFull', about: 'The disk of the server is full' },
};

/** Returns the statuses of the failures that follow from the declaration of a route, and of those that it lists. */
export function faultStatuses(
  { faults = [], params = {}, query, body, limit, method }: Declaration,
  ofAccess: readonly FaultKind[],
): number[] {
  const kinds: FaultKind[] = [...faults, ...ofAccess];
  if (query || body || Object.keys(params).length > 0) kinds.push('bad-request');
  if (body) kinds.push('too-slow', 'too-large', 'unsupported-media');
  // The server denies requests that a page of another origin sends through a browser.
  if (method !== 'get') kinds.push('denied');
  if (limit) kinds.push('too-many-requests');
  const statuses = new Set(kinds.map(kind => new Fault(kind, '').apiStatus));
  return [...statuses].sort((one, other) => one - other);
}
