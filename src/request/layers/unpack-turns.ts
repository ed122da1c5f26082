import { Fault } from '../../foundation/fault.ts';
import { Turns } from '../../upstream/transport/turns.ts';
import type { Caller } from '../container-request.ts';

/**
 * Waits for a turn to unpack a piece; resolves with a function that ends the turn. Throws a {@link Fault} (503) when
 * none came in time.
 */
export type TakeUnpackTurn = (
  caller: Pick<Caller, 'network' | 'user'>,
  signal?: AbortSignal,
) => Promise<() => void>;

const waitMs = 60_000;

/**
 * Limits how many layers are unpacked at the same moment. Default: two, one per caller, and one of all strangers, so that
 * they do not delay users. Unpacking occupies a thread of the pool that also reads and writes files.
 */
export function createUnpackTurns(atOnce = 2, ofCaller = 1): TakeUnpackTurn {
  const own = new Turns(ofCaller, tooBusy);
  const strangers = new Turns(1, tooBusy);
  const all = new Turns(atOnce, tooBusy);
  return async ({ network, user }, signal) => {
    const left: (() => void)[] = [];
    const leave = () => {
      for (const end of left.splice(0).reverse()) end();
    };
    try {
      left.push(await own.take(user ?? network ?? '', waitMs, signal));
      if (user === undefined) left.push(await strangers.take('', waitMs, signal));
      left.push(await all.take('', waitMs, signal));
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  };
}

function tooBusy(): Fault {
  return new Fault('unavailable', 'Too many layers are being unpacked: try again later', {
    phase: 'limit',
    limit: 'layers unpacked at once',
    retryAfterSeconds: 30,
  });
}
