import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

/** What a program printed and how it ended; `code` is -1 when it was killed. */
export interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramOptions {
  /** The whole environment. */
  readonly env: NodeJS.ProcessEnv;
  readonly input?: string;
  readonly timeoutMs?: number;
  readonly cwd?: string;
}

const defaultTimeoutMs = 300_000;

/** Starts a program in its own process group, its output piped. */
export function startProgram(
  [command = '', ...args]: readonly string[],
  { env, input, cwd }: ProgramOptions,
): ChildProcess {
  return spawn(command, args, {
    // So that a timeout reaches what it has started, too.
    detached: true,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env,
    ...(cwd === undefined ? {} : { cwd }),
  });
}

/** Runs a program to its end, whatever its exit code. Default timeout: five minutes. */
export async function runProgram(
  command: readonly string[],
  options: ProgramOptions,
): Promise<Result> {
  const { input, timeoutMs = defaultTimeoutMs } = options;
  const child = startProgram(command, options);
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', chunk => {
    stdout += chunk;
  });
  child.stderr?.setEncoding('utf8').on('data', chunk => {
    stderr += chunk;
  });
  child.stdin?.end(input);
  const timer = setTimeout(() => {
    stderr += `\nkilled after ${timeoutMs} ms`;
    if (child.pid !== undefined) killGroup(child.pid);
  }, timeoutMs);
  const closed = once(child, 'close');
  const [code] = await once(child, 'exit');
  clearTimeout(timer);
  // Not forever: a daemon that the program left behind may keep its output open.
  await Promise.race([closed, sleep(500, undefined, { ref: false })]);
  // Where this process was held up for as long, what was written is still to be read.
  await nextTurn();
  return { code: code ?? -1, stdout, stderr };
}

/** Kills a process group at once; a group that has just ended is not an error. */
export function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
