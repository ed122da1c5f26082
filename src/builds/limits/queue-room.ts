import { anonymousQueueFull, ownQueueFull, queueFull } from './refusals.ts';
import type { Sharer, Shares } from './shares.ts';

/**
 * Checks that one more build of a caller has room among those that run and wait. Throws a `Fault` (429, 503) if it has
 * none.
 *
 * @param present the callers of these builds, once for each build
 */
export function requireRoom(shares: Shares, present: readonly Sharer[], caller: Sharer): void {
  if (present.length >= shares.inAll) throw queueFull(shares.inAll);
  const own = present.filter(one => one.owner === caller.owner).length;
  if (own >= shares.ofOne) throw ownQueueFull(shares.ofOne);
  if (caller.isTrusted) return;
  const anonymous = present.filter(one => !one.isTrusted).length;
  if (anonymous >= shares.ofAnonymous) throw anonymousQueueFull(shares.ofAnonymous);
}
