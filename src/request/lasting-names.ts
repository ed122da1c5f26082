import { Fault } from '../foundation/fault.ts';
import type { Submission } from './container-request.ts';

/** What a server does with requests for names that expire: serve them, refuse them, or freeze their images instead. */
export type OnlyFrozen = 'off' | 'refuse' | 'freeze';

/** Returns the request that a server with the setting `tokens.onlyFrozen` accepts. Throws a {@link Fault} (403). */
export function withLastingName(submission: Submission, onlyFrozen: OnlyFrozen): Submission {
  const { freeze, mirror, buildRepository } = submission;
  if (onlyFrozen === 'off' || freeze || mirror) return submission;
  if (onlyFrozen === 'refuse') {
    throw new Fault(
      'denied',
      "This server gives no names that expire: send 'freeze: true', with the 'buildRepository' to push to or 'defaultRepository: true'",
      { phase: 'request', cause: new Error("tokens.onlyFrozen is 'refuse'") },
    );
  }
  return { ...submission, freeze: true, ...(buildRepository ? {} : { defaultRepository: true }) };
}
