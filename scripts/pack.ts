/**
 * Makes the npm packages of the project: `npm run pack [folder]`. `sluice` is everything, `sluice-cli` the commands
 * that need a server only. Both are compiled from the sources, because Node does not run TypeScript below
 * node_modules. The folder is .packages by default.
 */
import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { project } from './packages/compile.ts';
import { fillClient, fillServer } from './packages/contents.ts';

const folder = resolve(process.argv[2] ?? join(project, '.packages'));

const packages = { sluice: fillServer, 'sluice-cli': fillClient };
for (const [name, fill] of Object.entries(packages)) {
  const source = join(folder, name);
  await rm(source, { recursive: true, force: true });
  await fill(source);
  const { status, stdout } = spawnSync(
    'npm',
    ['pack', source, '--silent', '--pack-destination', folder],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  if (status !== 0) process.exit(1);
  console.log(join(folder, stdout.trim().split('\n').at(-1) ?? ''));
}
