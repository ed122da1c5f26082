import type { Logger } from './telemetry.ts';

/** A part that is closed, named for the log. */
export type ClosingPart = readonly [part: string, close: () => unknown];

/**
 * Closes the parts one after the other. A part that fails is logged, and the next ones are closed all the same.
 * Never rejects.
 */
export async function closeInTurn(parts: readonly ClosingPart[], log: Logger): Promise<void> {
  for (const [part, close] of parts) {
    try {
      await close();
    } catch (err) {
      log.error({ part, err }, 'a part of the server could not be closed properly');
    }
  }
}
