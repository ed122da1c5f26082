import type { Logger } from '../telemetry.ts';
import type { SweepReport } from './sweep.ts';

/** Sweeps again and again while the server runs, one after the other. `stop` ends the one under way. */
export function startSweeping(
  sweep: (signal: AbortSignal) => Promise<SweepReport>,
  intervalMs: number,
  log: Logger,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  const run = async () => {
    const began = performance.now();
    try {
      const { unlinked, removed, removedBytes, keptCount } = await sweep(stopping.signal);
      const ms = Math.round(performance.now() - began);
      const counts = { unlinked: unlinked.length, removed: removed.length, removedBytes };
      log.info({ ...counts, kept: keptCount, ms }, 'swept');
    } catch (err) {
      if (stopping.signal.aborted) return;
      log.error({ err }, 'the sweep failed: content that is no longer needed stays until the next');
    }
    running = undefined;
  };
  const timer = setInterval(() => {
    running ??= run();
  }, intervalMs).unref();
  return {
    async stop() {
      clearInterval(timer);
      stopping.abort();
      await running;
    },
  };
}
