import { Fault } from '../../../foundation/fault.ts';

/** Throws the {@link Fault} of a Dockerfile that no builder would take: 400, with the line. */
export function malformed(line: number, what: string): never {
  throw new Fault('bad-request', `The Dockerfile, line ${line}: ${what}`, { phase: 'request' });
}
