import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants as fileConstants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** A program of others that works on what others have sent. */
export interface ProgramOrder {
  /** Path of the program. */
  readonly program: string;
  readonly args: readonly string[];
  readonly directory: string;
  /** All variables that it gets. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly memoryBytes: number;
  /** Address space that it may reserve in addition. */
  readonly spareAddresses: number;
  /** Default: no limit. */
  readonly maxFileBytes?: number;
  readonly signal: AbortSignal;
  /** True if all else on the machine goes first. Default: false. */
  readonly isPatient?: boolean;
  /** Called several times a second. What it throws ends the program. */
  readonly check?: () => void | Promise<void>;
}

export interface ProgramEnd {
  readonly end: 'exited' | 'too long' | 'too large';
  readonly code: number | null;
  /** The beginning of what it wrote to its error output. */
  readonly output: string;
}

const maxOutput = 32 * 1024;
const watchMs = 200;

/**
 * Runs a program in a process group of its own until it ends, or takes more time or memory than it may. Nothing of it runs afterwards.
 * Rejects with the reason of the signal, and with what the check throws.
 */
export async function runLimited(order: ProgramOrder): Promise<ProgramEnd> {
  const { program, args, directory, env, signal, timeoutMs, memoryBytes } = order;
  // Nothing waits between here and the race below, which would miss an abort of before.
  signal.throwIfAborted();
  const seconds = Math.ceil(timeoutMs / 1000);
  // What a program reserves and does not use counts for the limit of the kernel, so that it is wider than that of the server.
  const kibibytes = Math.floor((memoryBytes + order.spareAddresses) / 1024);
  const { maxFileBytes } = order;
  // Were this server killed, the kernel still ends the program after its time.
  const limits = [
    'ulimit -c 0',
    `ulimit -t ${seconds}`,
    `ulimit -v ${kibibytes}`,
    ...(maxFileBytes === undefined ? [] : [`ulimit -f ${Math.ceil(maxFileBytes / 512)}`]),
  ];
  const script = `${limits.join(' && ')} && exec "$0" "$@"`;
  const child = spawn('/bin/sh', ['-c', script, program, ...args], {
    cwd: directory,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env,
  });
  try {
    if (order.isPatient && child.pid !== undefined)
      setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended already.
  }
  let output = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output = `${output}${text}`.slice(0, maxOutput);
  });
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  closed.catch(() => {});
  const watching = new AbortController();
  try {
    const end = await Promise.race([
      closed.then(endOf),
      tooLong(timeoutMs, watching.signal),
      watch(child, order, watching.signal),
      abortOf(signal, watching.signal),
    ]);
    return { code: child.exitCode, output, end };
  } finally {
    watching.abort();
    killGroup(child);
    await closed.catch(() => {});
  }
}

function endOf([code, killedBy]: [number | null, NodeJS.Signals | null]): ProgramEnd['end'] {
  // 134 and SIGABRT: it got no more memory.
  if (killedBy === 'SIGABRT' || code === 134) return 'too large';
  if (killedBy === 'SIGXCPU' || killedBy === 'SIGKILL') return 'too long';
  return 'exited';
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // All of the group has ended.
  }
}

async function tooLong(ms: number, signal: AbortSignal): Promise<'too long'> {
  await sleep(ms, undefined, { signal, ref: false });
  return 'too long';
}

/** Resolves when the process has more memory than it may have. */
async function watch(
  { pid }: ChildProcess,
  { memoryBytes, check }: Pick<ProgramOrder, 'memoryBytes' | 'check'>,
  signal: AbortSignal,
): Promise<'too large'> {
  for (;;) {
    await sleep(watchMs, undefined, { signal });
    await check?.();
    const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    const kibibytes = Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0);
    if (kibibytes * 1024 > memoryBytes) return 'too large';
  }
}

async function abortOf(signal: AbortSignal, ended: AbortSignal): Promise<never> {
  await once(signal, 'abort', { signal: ended });
  throw signal.reason;
}

/** Returns the path of a program in the first of the folders that has it; undefined without one. Relative folders are passed over. */
export function programIn(folders: readonly string[], name: string): string | undefined {
  return folders
    .filter(isAbsolute)
    .map(folder => join(folder, name))
    .find(isExecutable);
}

/** Returns whether this process may execute the file at a path. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, fileConstants.X_OK);
    return true;
  } catch {
    return false;
  }
}
