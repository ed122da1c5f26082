import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeDirectory, nodeVersions } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { run } from './run.ts';

export function hasNode(): boolean {
  return existsSync(nodeDirectory());
}

/** Installs older versions of Node, from the packages of npm that hold their programs. */
export async function buildNode(): Promise<void> {
  await makeFolder(
    {
      destination: nodeDirectory(),
      isThere: hasNode,
      doing: `Fetching Node ${Object.values(nodeVersions).join(' and ')}`,
    },
    async folder => {
      await writeFile(join(folder, 'package.json'), '{}');
      const programs = Object.entries(nodeVersions).map(
        ([major, version]) => `node-${major}@npm:node-linux-${process.arch}@${version}`,
      );
      await run('npm', ['install', '--prefix', folder, '--ignore-scripts', ...programs]);
      return folder;
    },
  );
}
