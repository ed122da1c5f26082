import type { ServerResponse } from 'node:http';
import { Fault } from '../../foundation/fault.ts';

/**
 * Checks at intervals, while a response is being sent, whether its receiver still has the right to it. Ends the
 * connection when the right has ended. A registry that does not answer has not ended a right.
 *
 * @param look throws a {@link Fault} below 500 when the right has ended
 */
export function watchRight(
  response: ServerResponse,
  everyMs: number,
  look: () => Promise<unknown>,
): void {
  // A response closes once. The client may have left during an earlier step.
  if (response.closed) return;
  const timer = setInterval(() => {
    look().catch(error => {
      if (!(error instanceof Fault) || error.kind === 'too-many-requests') return;
      if (error.status >= 500) return;
      clearInterval(timer);
      response.destroy();
    });
  }, everyMs);
  timer.unref();
  response.once('close', () => clearInterval(timer));
}
