/** What held the event loop while it was watched. */
export interface BlockWatch {
  /** Longest processor time of this thread between two turns of the event loop, in ms. */
  readonly cpuMs: number;
  /** Longest time between two turns, in ms: also what the disk and other programs on the machine took. */
  readonly wallMs: number;
}

const turnMs = 1;

/**
 * Runs the work and measures for how long it holds the event loop at a time. Processor time is what a test can rely
 * on: a machine that is busy with other things takes none of it. How much of it a step needs still differs between
 * machines, see `boundMs`.
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
 * A bound that is stated in ms of a usual processor, in ms of this one as it is now: an older machine, or another
 * program on the same core and its caches, makes the same steps take three times as long. Never less than stated.
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
