import { Fault } from '../../../foundation/fault.ts';

/** Throws the {@link Fault} for a Dockerfile that no builder would accept: 400, with the line. */
export function malformed(line: number, what: string): never {
  throw new Fault('bad-request', `The Dockerfile, line ${line}: ${what}`, { phase: 'request' });
}
