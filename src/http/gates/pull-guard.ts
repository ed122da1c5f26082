import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import type { RegistryAuth } from '../registry/login/registry-auth.ts';
import { type Openness, pullsAreOff } from './access-rules.ts';

/**
 * Accepts a request for a served name. Throws a {@link Fault}: 401 with a challenge if a login is required, 403 if
 * pulls are disabled.
 */
export type PullGuard = (request: IncomingMessage, name: string) => void | Promise<void>;

export function createPullGuard(pulls: Openness, auth: RegistryAuth): PullGuard {
  switch (pulls) {
    case 'open':
      return () => {};
    case 'login':
      return (request, name) => auth.admitPull(request, name);
    case 'off':
      return (_request, name) => {
        throw new Fault(
          'denied',
          `Cannot pull ${name}: ${pullsAreOff}. Request the image from another server, or a frozen one from this server`,
          { phase: 'request', headline: `Cannot pull: ${pullsAreOff}` },
        );
      };
  }
}
