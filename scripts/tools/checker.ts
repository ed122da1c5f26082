import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkerDirectory, checkerSource } from '../../test/world/tools.ts';
import { go } from './go-programs.ts';
import { makeFolder } from './make-folder.ts';

export function hasChecker(): boolean {
  return existsSync(checkerDirectory());
}

/** Compiles the program that checks histories, with its library from the Go module proxy. */
export async function buildChecker(): Promise<void> {
  await makeFolder(
    {
      destination: checkerDirectory(),
      isThere: hasChecker,
      doing: 'Compiling the checker of histories',
    },
    async folder => {
      const flags = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w'];
      await go(folder, 'build', '-C', checkerSource, ...flags, '-o', join(folder, 'linear'), '.');
      return folder;
    },
  );
}
