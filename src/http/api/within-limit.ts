import type { Fault } from '../../foundation/fault.ts';
import { faultOf } from '../errors/fault-of.ts';
import { type Allowance, type CallerLimit, type Limiter, limitHeaders } from '../limits/limiter.ts';

// Failures of the service itself: neither the request nor an upstream that it names is the cause.
const ownKinds: ReadonlySet<Fault['kind']> = new Set([
  'internal',
  'not-provided',
  'storage-full',
  'unavailable',
]);

/**
 * Takes one event of a limit and runs the work. Gives the event back when the work fails because of the service
 * itself. Throws a {@link Fault} (429) when no event is left.
 *
 * @param limit undefined for no limit
 * @param setHeaders receives the headers with the remaining allowance
 */
export async function runWithinLimit<T>(
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
