import type { Fault } from '../../foundation/fault.ts';
import { faultOf } from '../errors/fault-of.ts';
import type { CallerLimit } from './caller-rates.ts';
import { type Allowance, type Limiter, limitHeaders } from './limiter.ts';

// Failures of the service itself, for which neither the request nor an upstream in it is the reason.
const ownKinds: ReadonlySet<Fault['kind']> = new Set([
  'internal',
  'not-provided',
  'storage-full',
  'unavailable',
]);

/**
 * Does work that takes one event of a limit, and gives it back when the service itself is why the work fails.
 * Throws a {@link Fault} (429) when none is left.
 *
 * @param limit undefined where no limit holds
 * @param setHeaders receives the headers with the remaining allowance
 */
export async function limited<T>(
  limiter: Limiter,
  limit: CallerLimit | undefined,
  setHeaders: (headers: Record<string, string>) => void,
  work: (left: Allowance | undefined) => Promise<T>,
): Promise<T> {
  if (!limit) return work(undefined);
  const { key, rate, advice } = limit;
  const left = limiter.take(key, rate, advice);
  setHeaders(limitHeaders(left));
  try {
    return await work(left);
  } catch (error) {
    if (ownKinds.has(faultOf(error, '').kind)) {
      limiter.giveBack(key, rate);
      setHeaders(limitHeaders(limiter.peek(key, rate)));
    }
    throw error;
  }
}
