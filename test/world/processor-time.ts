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
