import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../foundation/fault.ts';
import { closedAddressIn } from './address-guard.ts';
import type { UpstreamResponse } from './upstream-response.ts';

export interface RetryPolicy {
  /** Number of tries, including the first. */
  readonly attempts: number;
  readonly firstDelayMs: number;
  /** If a server asks for a longer pause, its response is returned without waiting. */
  readonly longestDelayMs: number;
}

const passing = new Set([429, 500, 502, 503, 504]);

/**
 * Retries after a broken connection and after temporary errors, with exponential back-off and jitter or the server's
 * `Retry-After` (RFC 9110, section 10.2.3). Returns the last response; throws the last error. Does not retry a
 * timeout: the client's own timeout is about as long.
 */
export async function withRetries(
  policy: RetryPolicy,
  signal: AbortSignal | undefined,
  attempt: () => Promise<UpstreamResponse>,
): Promise<UpstreamResponse> {
  for (let tried = 1; ; tried += 1) {
    const backOffMs = policy.firstDelayMs * 2 ** (tried - 1) * (0.75 + Math.random() / 2);
    let pauseMs: number;
    try {
      const response = await attempt();
      const retryAfterMs = (retryAfterSeconds(response) ?? 0) * 1000;
      const isFinal =
        !passing.has(response.status) ||
        tried >= policy.attempts ||
        retryAfterMs > policy.longestDelayMs;
      if (isFinal) return response;
      response.body.destroy();
      pauseMs = Math.max(backOffMs, retryAfterMs);
    } catch (error) {
      if (tried >= policy.attempts || signal?.aborted || !isBrokenConnection(error)) throw error;
      pauseMs = backOffMs;
    }
    await sleep(Math.min(pauseMs, policy.longestDelayMs), undefined, signal ? { signal } : {});
  }
}

/** Returns `Retry-After` in seconds, from a number or a date. */
export function retryAfterSeconds(response: Pick<UpstreamResponse, 'headers'>): number | undefined {
  const text = response.headers.get('retry-after');
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  // Only text that begins with a weekday is a date: Date.parse reads one into many other texts.
  const date = /^[A-Z][a-z]{2,8},? /.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(date)) return undefined;
  // Use the sender's clock where it is known: the local one may be wrong.
  const sentAt = Date.parse(response.headers.get('date') ?? '');
  return Math.max(0, Math.ceil((date - (Number.isNaN(sentAt) ? Date.now() : sentAt)) / 1000));
}

/** True for a failure that may be temporary. */
export function isBrokenConnection(error: unknown): boolean {
  if (error instanceof Fault || !(error instanceof Error) || closedAddressIn(error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return [
    'ECONNRESET',
    'ECONNREFUSED',
    'EPIPE',
    'EAI_AGAIN',
    'UND_ERR_SOCKET',
    'reset',
    'connect',
  ].includes(code);
}
