/**
 * Installs a builder: `npm run buildkit` puts buildkitd into .buildkit, and installs runc and the programs that give
 * the builder its own network and disk.
 */
import { fileURLToPath } from 'node:url';
import { buildkitVersion, findCommand, hostPackages } from '../test/world/tools.ts';
import { buildBuildkit, hasBuildkit } from './tools/buildkit.ts';
import { ending, handleEnding } from './tools/ending.ts';
import { installOnHost } from './tools/host.ts';

const directory = fileURLToPath(new URL('../.buildkit', import.meta.url));
const containment = ['slirp4netns', 'nft', 'ip', 'mkfs.ext4'];

// Set by a server: the installation ends with it.
handleEnding(process.argv.includes('--leashed'));

try {
  if (!findCommand('runc')) await installOnHost(['runc']);
  await installContainment();
  if (hasBuildkit(directory)) {
    console.log(`BuildKit is there (${directory})`);
  } else {
    console.log(`Building BuildKit ${buildkitVersion}; this takes some minutes`);
    await buildBuildkit(directory);
    console.log(`BuildKit is in ${directory}: the next start of the server finds it`);
  }
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = ending.aborted ? 130 : 1;
}
// Standard input may still be open.
process.exit();

/** Without it there is still a builder, for callers with an access token. */
async function installContainment(): Promise<void> {
  const missing = containment.filter(name => !findCommand(name));
  if (missing.length === 0) return;
  try {
    await installOnHost(missing);
  } catch (error) {
    ending.throwIfAborted();
    const packages = missing.map(name => hostPackages[name]).join(', ');
    console.error(
      `${packages} cannot be installed, without which nobody builds without an access token: ${(error as Error).message}`,
    );
  }
}
