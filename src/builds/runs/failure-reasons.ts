import { Fault, isDiskFull, isStorageLost } from '../../foundation/fault.ts';
import type { BuildOutcome, BuildRow } from '../../storage/rows/index.ts';
import { BuilderLost } from '../builder/builder-refusals.ts';

const maxStarts = 3;

/** The reason for a build that failed because of a fault of the service. */
export const ownFailure =
  'The service failed: ask the operator for the details, which its log has under the id of the build';

/** Returns why a build of an earlier process does not start again; undefined for one that may start. */
export function unableToResume(
  { starts }: Pick<BuildRow, 'starts'>,
  isAllowed: boolean,
): (BuildOutcome & { readonly succeeded: false }) | undefined {
  if (!isAllowed) {
    return {
      succeeded: false,
      reason:
        'The operator has restricted builds since this build was requested: log in, and request the build again',
    };
  }
  if (starts < maxStarts) return undefined;
  return {
    succeeded: false,
    reason: `The server ended unexpectedly ${starts} times while this build ran, so the build does not start again: ask the operator for the reason in the log of the server, for example too little memory`,
  };
}

/** Returns why a build has failed, for its user. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof Fault) return cause.message;
  if (isDiskFull(cause))
    return 'The disk of the service is full: ask the operator to free disk space';
  return ownFailure;
}

/**
 * Returns the end of the log of a failed build. The last lines of its output are indented: they would read like messages
 * of the service otherwise, also to what finds the steps of a log.
 */
export function failureText(reason: string): string {
  return `\nThe build failed: ${reason.replaceAll('\n', '\n  ')}\n`;
}

/**
 * Returns true if neither the recipe nor an upstream is the reason. The build itself may have ended a builder that was
 * lost during the build.
 */
export function isOwnFailure(error: unknown): boolean {
  if (!(error instanceof Fault) || isStorageLost(error)) return true;
  return error.cause instanceof BuilderLost && !error.cause.hadBegun;
}
