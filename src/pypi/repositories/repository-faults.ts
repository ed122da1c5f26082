import { Fault } from '../../foundation/fault.ts';
import { faultOfError } from '../../upstream/index.ts';
import { closedAddressIn } from '../../upstream/transport/index.ts';

/** Returns why a repository cannot be read, for an error of the network. */
export function unreadable(url: string, error: unknown, what: string): Fault {
  const { host } = new URL(url);
  if (closedAddressIn(error)) {
    return refused(
      `The git repository ${url} is at a loopback, private or otherwise closed network address, which is refused: the operator can allow it with 'builds.privateHosts'`,
    );
  }
  const subject = `The git repository ${url}`;
  const fault = faultOfError(error, { registry: host }, { what }, subject);
  const isOwn = fault.message.startsWith(subject);
  return fault.withMessage(
    `${isOwn ? '' : `${subject} cannot be read: `}${fault.message}. A private package belongs at an index that the operator lists with its credentials in 'pypi'`,
  );
}

/** Returns the fault of a server that is too slow. */
export function tooSlow(url: string, what: string, ms: number): Fault {
  return new Fault(
    'upstream-timeout',
    `The git repository ${url} did not ${what} within ${ms / 1000} s: try again later`,
    { phase: 'upstream' },
  );
}

/** Returns the fault of a repository that is not what the caller says. */
export function refused(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'build' });
}
