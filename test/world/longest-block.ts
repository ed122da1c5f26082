/** How long the event loop was blocked. */
export interface BlockWatch {
  /** Longest processor time of this thread between two turns of the event loop, in ms. */
  readonly cpuMs: number;
  /** Longest time between two turns, in ms, including delays of the disk and other programs. */
  readonly wallMs: number;
}

const turnMs = 1;

/**
 * Runs the work and measures how long it blocks the event loop at a time.
 * Tests should rely on processor time, which other programs on the machine do not use. How much of it a step needs
 * still differs between machines, see `boundMs`.
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

// What the sample takes on the machine on which bounds are stated.
const usualSampleMs = 22;

/**
 * Converts a limit in ms of a usual processor to ms of this one: an older machine, or another program on the same core
 * and its caches, takes three times as long for the same steps. Never less than the stated limit.
 */
export function boundMs(statedMs: number): number {
  work(2);
  return statedMs * Math.max(1, sampleMs() / usualSampleMs);
}

function sampleMs(): number {
  const before = process.threadCpuUsage();
  work(10);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

/** A fixed piece of work of the kind that servers do: objects, strings, a sort. */
function work(rounds: number): void {
  for (let round = 0; round < rounds; round += 1) {
    const rows = Array.from({ length: 4000 }, (_, at) => ({ name: `name-${(at * 7919) % 4000}` }));
    rows.sort((one, other) => (one.name < other.name ? -1 : 1));
    const read = JSON.parse(JSON.stringify(rows)) as typeof rows;
    if (new Set(read.map(({ name }) => name)).size !== rows.length)
      throw new Error('a name is lost');
  }
}
