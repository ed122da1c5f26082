import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import { usualPatienceMs } from './current-leader.ts';
import type { HandOn, WholeAnswer } from './hand-on.ts';

// Shorter than the usual patience of a balancer.
const limitMs = 2000;
const ready: WholeAnswer = { status: 200, body: JSON.stringify({ status: 'ready' }) };

/**
 * Creates the check of a replica that does not lead. It is ready when the leader is. While one leader ends and the next one
 * begins, requests wait, and the replica stays ready for as long: a balancer that takes out all replicas refuses
 * requests.
 */
export function createFollowerReadiness(
  { ask }: Pick<HandOn, 'ask'>,
  now = () => performance.now(),
): (request: IncomingMessage) => Promise<WholeAnswer> {
  let answeredAt = Number.NEGATIVE_INFINITY;
  return async request => {
    const answer = await ask(request, limitMs);
    if (answer) {
      answeredAt = now();
      return answer;
    }
    if (now() - answeredAt < usualPatienceMs) return ready;
    throw new Fault(
      'unavailable',
      'No server of this site leads, or the leader does not answer this one: look at the logs of all servers of the site, and at its database',
    );
  };
}
