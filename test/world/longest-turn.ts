/** The longest turn of this thread's event loop while the work goes on, in ms of processor time. */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let before = process.threadCpuUsage();
  const look = () => {
    const now = process.threadCpuUsage();
    longestMs = Math.max(longestMs, (now.user + now.system - before.user - before.system) / 1000);
    before = now;
  };
  const timer = setInterval(look, 1);
  try {
    await work();
    return longestMs;
  } finally {
    clearInterval(timer);
    look();
  }
}
