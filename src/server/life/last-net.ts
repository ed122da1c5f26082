import type { Logger } from '../../foundation/telemetry/index.ts';

const pauseMs = 1000;

/**
 * Logs uncaught errors, at most one line a second, and lets the process continue, until it is disposed of. Why the
 * process continues: docs/adr/0019-nothing-ends-the-server.md.
 */
export function spreadLastNet(log: Logger): Disposable {
  let loggedAt = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  const onError = (err: unknown, origin: string): void => {
    const now = performance.now();
    if (now - loggedAt < pauseMs) {
      unlogged += 1;
      return;
    }
    const line = { err, origin, ...(unlogged > 0 ? { unlogged } : {}) };
    log.fatal(line, 'uncaught error: the server continues. Please report it');
    loggedAt = now;
    unlogged = 0;
  };
  process.on('uncaughtException', onError);
  return { [Symbol.dispose]: () => void process.off('uncaughtException', onError) };
}
