import { Fault } from '../../foundation/fault.ts';
import { type Permit, Semaphore } from '../../foundation/semaphore.ts';
import type { Caller } from '../container-request.ts';

/** Waits for a turn to unpack a piece. Throws a {@link Fault} (503) when none came in time. */
export type TakeUnpackTurn = (
  caller: Pick<Caller, 'network' | 'user'>,
  signal?: AbortSignal,
) => Promise<Permit>;

const waitMs = 60_000;

/**
 * Limits how many layers are unpacked at the same moment. Default: two, one per caller, and one of all anonymous
 * callers, so that they do not delay users. Unpacking occupies a thread of the pool that also reads and writes files.
 */
export function createUnpackTurns(atOnce = 2, ofCaller = 1): TakeUnpackTurn {
  const low = { limit: 1, passedBy: 1 };
  const turns = new Semaphore({ limit: atOnce, perKey: ofCaller, low, refusal: tooBusy });
  return ({ network, user }, signal) =>
    turns.take({ key: user ?? network ?? '', isLow: user === undefined, waitMs, signal });
}

function tooBusy(): Fault {
  return new Fault('unavailable', 'Too many layers are being unpacked: try again later', {
    phase: 'limit',
    limit: 'layers unpacked at once',
    retryAfterSeconds: 30,
  });
}
