import { Fault, isDiskFull } from '../foundation/fault.ts';
import type { BuildOutcome } from '../storage/rows/images/build-rows.ts';
import { BuilderLost } from './builder/builders.ts';

/** The end of a build that the operator no longer allows. */
export const notAllowed: BuildOutcome = {
  succeeded: false,
  reason:
    'The operator has restricted builds since this build was requested: request it again, with a login',
};

/** Why a build has failed, in words for its user. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof Fault) return cause.message;
  if (isDiskFull(cause)) return 'The disk of the service is full: have its operator make room';
  return 'Something went wrong inside the service: its log has the details under the id of the build';
}

/**
 * True where neither the recipe nor an upstream is the reason. A builder that went away in the middle may have been
 * killed by the build.
 */
export function isOwnFailure(error: unknown): boolean {
  if (!(error instanceof Fault)) return true;
  return error.cause instanceof BuilderLost && !error.cause.hadBegun;
}
