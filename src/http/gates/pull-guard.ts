import type { IncomingMessage } from 'node:http';
import { Fault } from '../../foundation/fault.ts';
import type { RegistryAuth } from '../registry/login/registry-auth.ts';
import type { Openness } from './access-rules.ts';

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
      return () => {
        throw new Fault(
          'denied',
          'This server serves no images: its operator has disabled pulls. Send the container request to another server',
          { phase: 'request', cause: new Error("access.pulls is 'off'") },
        );
      };
  }
}
