import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { BringBuilder } from '../../builds/index.ts';
import { Fault } from '../../foundation/fault.ts';

const install = fileURLToPath(new URL('../../../scripts/buildkit.ts', import.meta.url));
const installUv = fileURLToPath(new URL('../../../scripts/uv.ts', import.meta.url));
// Time to remove an unfinished installation.
const endMs = 15_000;
const keptCharacters = 2000;

/**
 * Returns what runs `npm run buildkit` in its own process, which ends when this process ends for any reason. It throws a
 * {@link Fault} with the last output of the installation, or the reason of the signal after the installation has ended.
 *
 * @param isAllowed whether packages of the machine's distribution may be installed
 */
export function bringBuilder(isAllowed: boolean): BringBuilder {
  const command = [install, '--leashed', ...(isAllowed ? ['--yes'] : [])];
  return (signal, onStep) => bring('BuildKit', command, signal, onStep);
}

/** Runs `npm run uv`, as {@link bringBuilder} does. */
export const bringUv: BringBuilder = (signal, onStep) =>
  bring('uv', [installUv, '--leashed'], signal, onStep);

async function bring(
  name: string,
  command: readonly string[],
  ...[signal, onStep]: Parameters<BringBuilder>
): Promise<void> {
  signal.throwIfAborted();
  // Its standard input closes when this process ends.
  const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = endOf(child);
  let reasons = '';
  createInterface({ input: child.stdout }).on('line', onStep);
  createInterface({ input: child.stderr }).on('line', line => {
    reasons = `${reasons}\n${line}`.slice(-keptCharacters);
    onStep(line);
  });
  child.stdin.on('error', () => {});
  const stop = () => {
    child.kill('SIGTERM');
    setTimeout(() => child.kill('SIGKILL'), endMs).unref();
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    const failure = await ended;
    signal.throwIfAborted();
    if (failure !== undefined) {
      const words = reasons.trim() === '' ? failure : reasons.trim();
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
