import { readdirSync, readFileSync } from 'node:fs';

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
 * Returns the processor time of the main thread of a process so far, in ms. The response of a server takes so much of
 * it, however busy the machine is. Source: Linux, Documentation/scheduler/sched-stats.rst.
 */
export function mainThreadMs(pid: number | undefined): number {
  const [onProcessor] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ');
  return Number(onProcessor) / 1e6;
}

/**
 * Returns for how long the main thread of a process was ready to run while other work had the processors, in ms; 0 for one that
 * has ended.
 */
export function delayedMs(pid: number | undefined): number {
  try {
    const [, delayed] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ');
    return Number(delayed) / 1e6;
  } catch {
    return 0;
  }
}

const tickMs = 10;

/** Returns the processor time of all programs that this process has run to their end, in ms. */
export function endedProgramsMs(): number {
  return fieldsOf('self')?.endedMs ?? 0;
}

/**
 * Returns the processor time of a process and of all that it has started so far, in ms: of processes that have ended, if
 * their parents have waited for them.
 * Source: proc(5), ppid, utime, stime, cutime and cstime in ticks of 10 ms.
 */
export function processTreeMs(root: number | undefined): number {
  const processes = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(name => {
      const fields = fieldsOf(name);
      return fields ? [{ pid: Number(name), ...fields }] : [];
    });
  const sumOf = (pid: number): number =>
    processes
      .filter(({ parent }) => parent === pid)
      .reduce(
        (sum, child) => sum + sumOf(child.pid),
        processes.find(one => one.pid === pid)?.ms ?? 0,
      );
  return sumOf(root ?? 0);
}

interface Fields {
  readonly parent: number;
  /** With those of {@link endedMs}. */
  readonly ms: number;
  /** Of children that have ended. */
  readonly endedMs: number;
}

function fieldsOf(pid: string): Fields | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name of the program may have blanks and brackets.
    const [, parent, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const [user = 0, system = 0, ...ended] = rest.slice(9, 13).map(field => Number(field) * tickMs);
    const endedMs = ended.reduce((sum, ms) => sum + ms, 0);
    return { parent: Number(parent), ms: user + system + endedMs, endedMs };
  } catch {
    return undefined;
  }
}
