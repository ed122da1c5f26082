/** Brings a builder along: `npm run buildkit` puts buildkitd into .buildkit, and installs runc with it. */
import { fileURLToPath } from 'node:url';
import { buildkitVersion, findCommand } from '../test/world/tools.ts';
import { buildBuildkit, hasBuildkit } from './tools/buildkit.ts';
import { installOnHost } from './tools/host.ts';

const directory = fileURLToPath(new URL('../.buildkit', import.meta.url));

try {
  if (!findCommand('runc')) await installOnHost(['runc']);
  if (hasBuildkit(directory)) {
    console.log(`BuildKit is there (${directory})`);
  } else {
    console.log(`Building BuildKit ${buildkitVersion}; this takes some minutes`);
    await buildBuildkit(directory);
    console.log(`BuildKit is in ${directory}: the next start of the server finds it`);
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
