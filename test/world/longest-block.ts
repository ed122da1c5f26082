/** What held the event loop while it was watched. */
export interface BlockWatch {
  /** Longest CPU time of this thread between two turns of the event loop, in ms. */
  readonly cpuMs: number;
  /** Longest time between two turns, in ms: also what the disk and other programs on the machine took. */
  readonly wallMs: number;
}

const turnMs = 1;

/**
 * Runs the work and measures for how long it holds the event loop at a time. CPU time is what a test can rely on: a
 * machine that is busy with other things takes none of it.
 */
export async function longestBlock(work: () => Promise<unknown>): Promise<BlockWatch> {
  const longest = { cpuMs: 0, wallMs: 0 };
  let wall = performance.now();
  let cpu = process.threadCpuUsage();
  const turn = () => {
    const { user, system } = process.threadCpuUsage(cpu);
    longest.cpuMs = Math.max(longest.cpuMs, (user + system) / 1000);
    longest.wallMs = Math.max(longest.wallMs, performance.now() - wall);
    wall = performance.now();
    cpu = process.threadCpuUsage();
  };
  const timer = setInterval(turn, turnMs);
  try {
    await work();
    turn();
  } finally {
    clearInterval(timer);
  }
  return longest;
}
