import { type ChildProcess, spawn } from 'node:child_process';
import { ending, handlesEnding } from './ending.ts';

// Time for a program to remove its partial results.
const patienceMs = 3000;

/** Runs a program to its end and returns its output. A failure throws with the end of the output. */
export function run(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    if (ending.aborted) return reject(ending.reason);
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      // A separate group, so that child processes are stopped with it.
      detached: handlesEnding(),
      env: { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive', ...env },
    });
    const end = () => endGroup(child);
    ending.addEventListener('abort', end, { once: true });
    let all = '';
    let out = '';
    child.stdout.on('data', chunk => {
      out += chunk;
      all += chunk;
    });
    child.stderr.on('data', chunk => {
      all += chunk;
    });
    child.on('error', reject);
    child.on('close', code => {
      ending.removeEventListener('abort', end);
      if (ending.aborted) return reject(ending.reason);
      if (code === 0) return resolve(out);
      const tail = all.trimEnd().split('\n').slice(-15).join('\n');
      reject(new Error(`'${command} ${args.join(' ')}' ended with ${code}:\n${tail}`));
    });
  });
}

/** Asks a program and its child processes to end, and then kills them. */
function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  const kill = (signal: NodeJS.Signals) => {
    try {
      process.kill(-pid, signal);
    } catch {
      // All of them have ended.
    }
  };
  kill('SIGTERM');
  setTimeout(kill, patienceMs, 'SIGKILL').unref();
}
