import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import { callerAddress, networkOf } from '../callers/client-address.ts';
import { createLimiter, type Rate } from './limiter.ts';

/**
 * Prevents guessing of passwords and tokens: counts the failed logins of each client address, in memory. Successful
 * logins cost nothing.
 */
export interface LoginLimit {
  /**
   * Runs before the server checks a login. Throws a {@link Fault} (429) when too many logins from the address of
   * the request failed lately, so the response does not reveal whether this one is right.
   */
  check(request: IncomingMessage): void;
  /** Counts a login that failed. */
  fail(request: IncomingMessage): void;
  /**
   * Runs the same check for a login that takes time. Until the caller calls the returned function, the login counts
   * as failed for all others from the address. So no more logins run at once than may fail.
   */
  begin(request: IncomingMessage): () => void;
}

/**
 * @param rate undefined for no limit
 * @param trustedProxies see {@link callerAddress}
 */
export function createLoginLimit(rate: Rate | undefined, trustedProxies: number): LoginLimit {
  const advice = 'check the name, password or token that is sent: every wrong one counts';
  const limiter = createLimiter('failed logins from one address', undefined, advice);
  // A client with one IPv6 address has a whole network of them.
  const keyOf = (request: IncomingMessage) => networkOf(callerAddress(request, trustedProxies));
  const running = new Map<string, number>();
  return {
    check(request) {
      if (rate) limiter.check(keyOf(request), rate);
    },
    begin(request) {
      if (!rate) return () => {};
      const key = keyOf(request);
      limiter.check(key, rate);
      const count = running.get(key) ?? 0;
      const { remaining } = limiter.peek(key, rate);
      if (count >= remaining) {
        throw new Fault(
          'too-many-requests',
          `${count} logins from this address are still being checked: wait for their answers before the next login`,
          { phase: 'limit', limit: 'logins at once from one address', retryAfterSeconds: 1 },
        );
      }
      running.set(key, count + 1);
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        const left = (running.get(key) ?? 1) - 1;
        if (left > 0) running.set(key, left);
        else running.delete(key);
      };
    },
    fail(request) {
      // Also beyond the limit: logins that run at once all pass the check, and wait longer afterwards.
      if (rate) limiter.note(keyOf(request), rate);
    },
  };
}

/** Returns true for the fault of a failed login: a name, password or token that is wrong or has expired. */
export function isFailedLogin(error: unknown): boolean {
  return error instanceof Fault && (error.kind === 'denied' || error.kind === 'unauthorized');
}
