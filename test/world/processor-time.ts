/**
 * How long the processor has worked for the function, in ms. Unlike the time that passes it is the same on
 * a busy machine, so it shows what takes too many steps.
 */
export function processorMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
