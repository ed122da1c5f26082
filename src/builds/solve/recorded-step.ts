import { SecretMask, type StepChange } from '../../buildkit/index.ts';
import type { BuildStep } from '../logs/build-step.ts';

/** Returns a step of BuildKit for the record of a build, without secrets. */
export function recordedStep(step: StepChange, mask = new SecretMask()): BuildStep {
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
