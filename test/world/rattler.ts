import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { PackedPackage } from './conda-package.ts';
import { requireCommand, requireConda } from './tools.ts';

const program = fileURLToPath(new URL('rattler-install.py', import.meta.url));

export interface RattlerOrder {
  /** Path that files name as the place of the environment. */
  readonly prefix: string;
  /** Directory that is made in its place. */
  readonly target: string;
  readonly cache: string;
  /** URL of the channel that has the packages. */
  readonly channel: string;
}

/** Installs packages by rattler. Throws an error with its message. */
export async function installByRattler(
  packed: readonly PackedPackage[],
  { channel, ...order }: RattlerOrder,
): Promise<void> {
  const packages = packed.map(({ fileName, subdir, record }) => ({
    ...record,
    url: `${channel}/${subdir}/${fileName}`,
  }));
  const run = async () => {
    const running = promisify(execFile)(requireCommand('python3'), [program], {
      env: { ...process.env, PYTHONPATH: join(requireConda(), 'rattler') },
    });
    running.child.stdin?.end(JSON.stringify({ ...order, packages }));
    await running;
  };
  try {
    await run();
  } catch (error) {
    // Now and then one of its threads removes as a file what another has made as a directory.
    if (!/failed to remove file .*Is a directory/s.test((error as Error).message)) throw error;
    await rm(order.target, { recursive: true, force: true });
    await run();
  }
}
