import { Fault } from '../../foundation/fault.ts';

/** The build has reached its time limit. */
export class BuildTooLong extends Fault {
  constructor(message: string) {
    super('unavailable', message, { phase: 'build' });
  }
}

/** The time limits of builds (ms). */
export interface TimeLimits {
  readonly usual: number;
  /** The limit for trusted callers. */
  readonly trusted: number;
}

/** Aborts a build at its time limit, with a {@link Fault} as the reason. Disposing of it turns off the limit. */
export function startTimeLimit(
  stop: AbortController,
  limits: TimeLimits,
  isTrusted: boolean,
): Disposable {
  const [ms, setting] = isTrusted
    ? [limits.trusted, 'builds.trustedTimeLimit']
    : [limits.usual, 'builds.timeLimit'];
  const message = `The build took longer than the ${spelled(ms)} allowed: make it smaller, or ask the operator to raise ${setting}`;
  const timer = setTimeout(() => stop.abort(new BuildTooLong(message)), ms);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

function spelled(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? `${seconds} seconds` : `${Math.round(seconds / 6) / 10} minutes`;
}
