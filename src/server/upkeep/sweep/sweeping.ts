import { SingleFlight } from '../../../foundation/single-flight.ts';
import type { createWorkMetrics, Logger } from '../../../foundation/telemetry/index.ts';
import type { SweepReport } from './sweep.ts';

const name = 'remove unreferenced content';

/**
 * Runs one sweep after the other while the server runs, except while the clock is unreliable. `stop` ends the running
 * sweep.
 */
export function startSweeping(
  sweep: (signal: AbortSignal) => Promise<SweepReport>,
  intervalMs: number,
  isSteady: () => Promise<boolean>,
  log: Logger,
  metrics: ReturnType<typeof createWorkMetrics>,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const running = new SingleFlight<void>();
  const run = async () => {
    const began = performance.now();
    try {
      // Content that looks old may be young: it stays until the clock is reliable.
      if (!(await isSteady())) return;
      const { unlinkedCount, removedCount, removedBytes, keptCount } = await sweep(stopping.signal);
      const ms = Math.round(performance.now() - began);
      const counts = { unlinked: unlinkedCount, removed: removedCount, removedBytes };
      metrics.note(name, 'done');
      metrics.noteSwept(removedCount, removedBytes);
      log.info({ ...counts, kept: keptCount, ms }, 'swept');
    } catch (err) {
      if (stopping.signal.aborted) return;
      metrics.note(name, 'failed');
      log.error({ err }, 'the sweep failed: unreferenced content stays until the next sweep');
    }
  };
  const timer = setInterval(() => {
    void running.run(run);
  }, intervalMs).unref();
  return {
    async stop() {
      clearInterval(timer);
      stopping.abort();
      await running.settled();
    },
  };
}
