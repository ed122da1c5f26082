import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { killGroup } from './program.ts';
import { requireCommand } from './tools.ts';

/** A program that runs beside the test until `stop`. */
export interface Daemon extends AsyncDisposable {
  readonly process: ChildProcess;
  /** Its output so far, standard output and error together, the last 256 KiB. */
  output(): string;
  /** Calls back for each whole line that it writes from now on. */
  onLine(listener: (line: string) => void): void;
  /** Settles when it has ended, for whatever reason. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

export interface DaemonOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: 'ignore' | 'pipe';
  /** True for a program that starts others: if it does not end in time, they are killed with it. */
  readonly startsOthers?: boolean;
}

const keptOutput = 256 * 1024;
const patienceMs = 30_000;
// For a program to be ready, on a busy machine.
const readyMs = 120_000;

/** Starts a program that dies with this process, even when this process is killed. */
export function startDaemon(
  command: string,
  args: readonly string[],
  options: DaemonOptions = {},
): Daemon {
  const child = spawn(
    requireCommand('setpriv'),
    ['--pdeathsig', 'KILL', requireCommand(command), ...args],
    {
      stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'],
      detached: options.startsOthers ?? false,
      env: { ...process.env, ...options.env },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    },
  );
  return watch(child, options.startsOthers);
}

/** Wraps a running child process; `stop` asks it to end, and then kills it, optionally with its process group. */
export function watch(child: ChildProcess, isGroup = false): Daemon {
  let output = '';
  const listeners: ((line: string) => void)[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    let rest = '';
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      output = (output + chunk).slice(-keptOutput);
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) for (const listener of listeners) listener(line);
    });
  }
  const ended = new Promise<void>(resolve => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const stop = async () => {
    const { pid } = child;
    if (hasEnded() || pid === undefined) return;
    child.kill('SIGTERM');
    const kill = () => (isGroup ? killGroup(pid) : child.kill('SIGKILL'));
    const timer = setTimeout(kill, patienceMs);
    await ended;
    clearTimeout(timer);
  };
  return {
    process: child,
    output: () => output,
    onLine: listener => listeners.push(listener),
    ended,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** Waits for a line that matches the pattern. Throws the output if the program ends first. */
export function waitForLine(
  daemon: Daemon,
  pattern: RegExp,
  timeoutMs = readyMs,
): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    const fail = (why: string) => {
      clearTimeout(timer);
      reject(new Error(`${daemon.process.spawnargs.join(' ')}: ${why}:\n${daemon.output()}`));
    };
    const timer = setTimeout(() => fail(`not ready after ${timeoutMs} ms`), timeoutMs);
    daemon.process.once('exit', code => fail(`ended with ${code}`));
    daemon.process.once('error', error => fail(error.message));
    daemon.onLine(line => {
      const match = pattern.exec(line);
      if (match === null) return;
      clearTimeout(timer);
      resolve(match);
    });
  });
}

/** Waits until the check holds. Throws the output if the program ends first. */
export async function waitUntil(
  daemon: Daemon,
  isReady: () => Promise<boolean>,
  timeoutMs = readyMs,
): Promise<void> {
  const started = Date.now();
  while (!(await isReady())) {
    const { exitCode, signalCode } = daemon.process;
    const hasEnded = exitCode !== null || signalCode !== null;
    if (hasEnded || Date.now() - started > timeoutMs) {
      throw new Error(`${daemon.process.spawnargs.join(' ')} is not ready:\n${daemon.output()}`);
    }
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

/** The process that `unshare --fork` has started, by its number on the machine. */
export async function firstChild(parent: ChildProcess): Promise<number> {
  const children = await readFile(`/proc/${parent.pid}/task/${parent.pid}/children`, 'utf8');
  const [child] = children.trim().split(' ');
  if (!child) throw new Error(`${parent.spawnargs.join(' ')} has no process`);
  return Number(child);
}
