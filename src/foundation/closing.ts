import type { Logger } from './telemetry.ts';

/** A part that is closed, named for the log. */
export type ClosingPart = readonly [part: string, close: () => unknown];

/** Closes the parts one after the other. Logs a part that fails, and continues with the next one. Never rejects. */
export async function closeInTurn(parts: readonly ClosingPart[], log: Logger): Promise<void> {
  for (const [part, close] of parts) {
    try {
      await close();
    } catch (err) {
      log.error(
        { part, err },
        'a part of the server could not be closed properly: the server stops without it',
      );
    }
  }
}
