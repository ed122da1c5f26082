import { Fault } from '../../foundation/fault.ts';

/** Faults for builds that do not begin. */

/** Too many builds of all callers run or wait. */
export function queueFull(most: number): Fault {
  return new Fault(
    'unavailable',
    `${most} builds run or wait already, which is the limit (builds.maxWaiting): try again later`,
    { phase: 'limit', limit: 'builds that run or wait', retryAfterSeconds: 60 },
  );
}

/** Too many builds of callers without a login run or wait. */
export function anonymousQueueFull(most: number): Fault {
  return new Fault(
    'unavailable',
    `${most} builds of callers without a login run or wait already, which is the limit (builds.maxWaitingAnonymous): send the request with an access token, or try again later`,
    {
      phase: 'limit',
      limit: 'builds without a login that run or wait',
      retryAfterSeconds: 60,
    },
  );
}

/** Too many builds of this caller run or wait. */
export function ownQueueFull(most: number): Fault {
  return new Fault(
    'too-many-requests',
    `You have ${most} builds that run or wait already, which is the limit (builds.maxWaitingPerCaller): try again when some have finished`,
    { phase: 'limit', limit: 'builds of one caller that run or wait', retryAfterSeconds: 60 },
  );
}

/** Somebody who may do so has cancelled the build. */
export class BuildCancelled extends Fault {
  constructor() {
    super('unavailable', 'The build was cancelled', { phase: 'build' });
  }
}

/** The server is stopping. */
export function stopping(): Fault {
  return new Fault('unavailable', 'The server is stopping: try again in a moment', {
    phase: 'request',
    retryAfterSeconds: 5,
  });
}

/** The secrets of a build were lost with the process that had them in memory. */
export function lostSecrets(): Fault {
  return new Fault(
    'unavailable',
    'The server was restarted and has lost the secrets and SSH keys of this build: request the build again and send them again',
    { phase: 'build' },
  );
}
