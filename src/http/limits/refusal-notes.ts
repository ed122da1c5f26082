import type { Fault } from '../../foundation/fault.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import { networkOf } from '../callers/client-address.ts';
import type { Who } from '../request-state.ts';

const refusals = new Set([429, 503, 507]);

/** Counts a request that a limit refused, and the caller. Nothing for other failures. */
export function noteRefusal(
  tally: Tally,
  fault: Pick<Fault, 'limit' | 'kind' | 'phase'>,
  status: number,
  { user, account, address }: Who & { readonly address: string },
): void {
  if (!refusals.has(status)) return;
  tally.add('limits', { limit: limitOf(fault, status) });
  tally.add('refused callers', { caller: callerName(user, account, address) });
}

function limitOf(
  { limit, kind, phase }: Pick<Fault, 'limit' | 'kind' | 'phase'>,
  status: number,
): string {
  if (limit !== undefined) return limit;
  if (kind === 'storage-full') return 'free space on the disk';
  if (phase === 'upstream' && status === 429) return 'rate limit of another registry';
  return `no limit: ${status}${phase === undefined ? '' : ` (${phase})`}`;
}

function callerName(
  user: string | undefined,
  account: string | undefined,
  address: string,
): string {
  if (account !== undefined) return `account ${account}`;
  return user === undefined ? networkOf(address) : `user ${user}`;
}
