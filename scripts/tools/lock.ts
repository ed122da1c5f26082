import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { toolsDirectory } from '../../test/world/tools.ts';
import { ending } from './ending.ts';

/**
 * Holds a lock of this machine until it is disposed of or this process ends in any way: the kernel holds it on a file
 * that a child process has open.
 */
export async function lock(name: string): Promise<Disposable> {
  const folder = join(toolsDirectory(), 'locks');
  await mkdir(folder, { recursive: true });
  const holder = spawn('flock', [join(folder, name), 'sh', '-c', 'echo locked; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const end = () => holder.kill();
  ending.addEventListener('abort', end, { once: true });
  const notice = setTimeout(() => console.log(`Waiting for another run: ${name}`), 1000);
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
