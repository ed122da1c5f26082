import type { IncomingMessage } from 'node:http';
import { Fault } from '../fault.ts';
import { callerAddress, networkOf } from './caller.ts';
import { createLimiter, type Rate } from './limiter.ts';

/**
 * Keeps passwords and tokens from being tried one after the other: the logins of a client address that
 * failed are counted, in memory. Those that succeed cost nothing.
 */
export interface LoginLimit {
  /**
   * Called before a login is looked at. Throws a {@link Fault} (429) when too many from the address of the
   * request have failed lately, so that nobody is told whether this one is right.
   */
  check(request: IncomingMessage): void;
  /** Counts a login that failed. */
  fail(request: IncomingMessage): void;
}

/**
 * @param rate undefined for no limit
 * @param trustedProxies see {@link callerAddress}
 */
export function createLoginLimit(rate: Rate | undefined, trustedProxies: number): LoginLimit {
  const advice = 'check the name, password or token that is sent: every wrong one counts';
  const limiter = createLimiter('failed logins from one address', undefined, advice);
  // Who has one address of IPv6 has many.
  const keyOf = (request: IncomingMessage) => networkOf(callerAddress(request, trustedProxies));
  return {
    check(request) {
      if (rate) limiter.check(keyOf(request), rate);
    },
    fail(request) {
      // Also beyond the limit: logins that are tried side by side all pass the check, and wait longer afterwards.
      if (rate) limiter.note(keyOf(request), rate);
    },
  };
}

/** True for what is thrown to who is not let in: a name, password or token that is wrong, or has ended. */
export function isFailedLogin(error: unknown): boolean {
  return error instanceof Fault && (error.kind === 'denied' || error.kind === 'unauthorized');
}
