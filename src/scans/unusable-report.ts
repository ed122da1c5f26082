import { Fault } from '../foundation/fault.ts';

/** Returns the failure of a scan whose scanner sent what cannot be used. */
export function unusable(what: string): Fault {
  return new Fault('upstream-unusable', `The scanner sent ${what}`, { phase: 'upstream' });
}
