import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { checkerDirectory, checkerSource } from '../../test/world/tools.ts';
import { go } from './go-programs.ts';
import { lock } from './lock.ts';

export function hasChecker(): boolean {
  return existsSync(checkerDirectory());
}

/** Compiles the program that checks histories, with its library from the Go module proxy. */
export async function buildChecker(): Promise<void> {
  const destination = checkerDirectory();
  using _lock = await lock(basename(destination));
  if (hasChecker()) return;
  console.log(`Compiling the checker of histories to ${destination}`);
  const folder = `${destination}.unfinished`;
  await rm(folder, { recursive: true, force: true });
  try {
    await mkdir(folder, { recursive: true });
    const flags = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w'];
    await go(folder, 'build', '-C', checkerSource, ...flags, '-o', join(folder, 'linear'), '.');
    await rename(folder, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
