import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { BringBuilder } from '../../builds/index.ts';
import { Fault } from '../../foundation/fault.ts';

// Time to remove an unfinished installation.
const endMs = 15_000;
const keptCharacters = 2000;

/** Runs `npm run buildkit`, as {@link runInstallation} does. */
export const bringBuilder: BringBuilder = (signal, onStep) =>
  runInstallation(
    fileURLToPath(new URL('../../../scripts/buildkit.ts', import.meta.url)),
    ...(['BuildKit', signal, onStep] as const),
  );

/** Runs `npm run uv`, as {@link runInstallation} does. */
export const bringUv: BringBuilder = (signal, onStep) =>
  runInstallation(
    fileURLToPath(new URL('../../../scripts/uv.ts', import.meta.url)),
    ...(['uv', signal, onStep] as const),
  );

/**
 * Runs a script in its own process, which ends when this process ends for any reason. Throws a {@link Fault} with the last
 * output of the installation, or the reason of the signal after the installation has ended.
 */
async function runInstallation(
  install: string,
  name: string,
  signal: AbortSignal,
  onStep: (line: string) => void,
): Promise<void> {
  signal.throwIfAborted();
  // Its standard input closes when this process ends.
  const child = spawn(process.execPath, [install, '--leashed'], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = endOf(child);
  let last = '';
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    createInterface({ input: stream }).on('line', line => {
      last = `${last}\n${line}`.slice(-keptCharacters);
      onStep(line);
    });
  }
  child.stdin?.on('error', () => {});
  const stop = () => {
    child.kill('SIGTERM');
    setTimeout(() => child.kill('SIGKILL'), endMs).unref();
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    const failure = await ended;
    signal.throwIfAborted();
    if (failure !== undefined) {
      const words = last.trim() === '' ? failure : last.trim();
      throw new Fault('unavailable', `Cannot install ${name}: ${words}`, {
        phase: 'build',
      });
    }
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Returns how the process failed; undefined for a success. */
function endOf(child: ChildProcess): Promise<string | undefined> {
  return new Promise(resolve => {
    child.once('error', error => resolve(error.message));
    child.once('close', (code, signal) =>
      resolve(code === 0 ? undefined : `it ended with ${signal ?? code}`),
    );
  });
}
