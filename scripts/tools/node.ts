import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { nodeDirectory, nodeVersions } from '../../test/world/tools.ts';
import { lock } from './lock.ts';
import { run } from './run.ts';

export function hasNode(): boolean {
  return existsSync(nodeDirectory());
}

/** Installs older versions of Node, from the packages of npm that hold their programs. */
export async function buildNode(): Promise<void> {
  const destination = nodeDirectory();
  using _lock = await lock(basename(destination));
  if (hasNode()) return;
  console.log(`Fetching Node ${Object.values(nodeVersions).join(' and ')} to ${destination}`);
  const folder = `${destination}.unfinished`;
  // A run that was killed may have left files behind.
  await rm(folder, { recursive: true, force: true });
  try {
    await mkdir(folder);
    await writeFile(join(folder, 'package.json'), '{}');
    const programs = Object.entries(nodeVersions).map(
      ([major, version]) => `node-${major}@npm:node-linux-${process.arch}@${version}`,
    );
    await run('npm', ['install', '--prefix', folder, '--ignore-scripts', ...programs]);
    await rename(folder, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
