import { readFileSync } from 'node:fs';

/**
 * Returns the processor time of the function, in ms. Unlike elapsed time it does not grow on a busy machine, so it
 * shows code with too many steps.
 */
export function processorMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/**
 * Returns the processor time of the main thread of a process so far, in ms. The answer of a server takes so much of it,
 * however busy the machine is.
 * Source: Linux, Documentation/scheduler/sched-stats.rst.
 */
export function mainThreadMs(pid: number | undefined): number {
  const [onProcessor] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ');
  return Number(onProcessor) / 1e6;
}
