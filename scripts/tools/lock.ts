import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { toolsDirectory } from '../../test/world/tools.ts';
import { ending } from './ending.ts';

/** Holds a lock of this machine, as {@link lockFile} does. */
export async function lock(name: string): Promise<Disposable> {
  const folder = join(toolsDirectory(), 'locks');
  await mkdir(folder, { recursive: true });
  return lockFile(join(folder, name));
}

/**
 * Holds a lock until it is disposed of or this process ends in any way: the kernel holds it on a file that a child
 * process has open.
 */
export async function lockFile(path: string): Promise<Disposable> {
  const holder = spawn('flock', [path, 'sh', '-c', 'echo locked; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const end = () => holder.kill();
  ending.addEventListener('abort', end, { once: true });
  const notice = setTimeout(() => console.log(`Waiting for another run: ${basename(path)}`), 1000);
  await Promise.race([
    once(holder.stdout, 'data'),
    once(holder, 'exit').then(([code]) => {
      ending.throwIfAborted();
      throw new Error(`flock ended with ${code}`);
    }),
  ]).finally(() => clearTimeout(notice));
  // Held until partial results are removed.
  ending.removeEventListener('abort', end);
  return { [Symbol.dispose]: () => holder.stdin.end() };
}
