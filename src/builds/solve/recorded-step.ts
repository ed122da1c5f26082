import { plainLog, SecretMask, type StepChange } from '../../buildkit/index.ts';
import type { LogWriter } from '../logs/build-logs.ts';
import type { BuildStep } from '../logs/build-step.ts';
import type { StepCount } from '../logs/run-step.ts';

const logMs = 150;

/**
 * Writes the progress of a run of BuildKit into the log of a build, and records its steps, without secrets.
 *
 * @param count numbers the steps, and knows the last one after `end`
 */
export function recordedProgress(
  log: Pick<LogWriter, 'write' | 'step'>,
  count: StepCount,
  mask = new SecretMask(),
) {
  // The log arrives in whole lines, so that no secret is split.
  const text = plainLog(
    lines => log.write(lines, shown => mask.apply(shown)),
    logMs,
    steps => {
      for (const step of steps) log.step(recordedStep(step, mask));
    },
    count.last,
  );
  return {
    onProgress: text.onProgress,
    end(): void {
      count.last = text.end();
    },
  };
}

/** Returns a step of BuildKit for the record of a build, without secrets. */
function recordedStep(step: StepChange, mask: SecretMask): BuildStep {
  const { number, name, cached, startedMs, completedMs, error } = step;
  const end = error === undefined ? (cached ? 'cached' : 'done') : 'failed';
  return {
    key: `#${number}`,
    number,
    name: mask.apply(name),
    state: step.isCancelled ? 'cancelled' : completedMs === undefined && !error ? 'running' : end,
    startedAt: startedMs,
    endedAt: completedMs,
    error: error && mask.apply(error),
  };
}
