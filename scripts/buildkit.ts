/**
 * Installs a builder: `npm run buildkit` puts buildkitd into .buildkit. With `--yes` it also installs the Debian packages
 * of runc, and of the programs that give the builder its own network and disk; otherwise it says how to install them.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { buildkitVersion, findCommand } from '../test/world/tools.ts';
import { buildBuildkit, hasBuildkit } from './tools/buildkit.ts';
import { ending, handleEnding } from './tools/ending.ts';
import { installOnHost, installOnlyWith } from './tools/host.ts';

const directory = fileURLToPath(new URL('../.buildkit', import.meta.url));
const containment = ['slirp4netns', 'nft', 'ip', 'mkfs.ext4'];

const options = {
  yes: { type: 'boolean', default: false },
  // Set by a server: the installation ends with it.
  leashed: { type: 'boolean', default: false },
} as const;
const { yes, leashed } = parseArgs({ options }).values;
handleEnding(leashed);
if (!yes) installOnlyWith(`${leashed ? 'npm start' : 'npm run buildkit'} -- --yes`);

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
    console.error(
      `Nobody builds without an access token, because the builder gets no network and disk of its own. ${(error as Error).message}`,
    );
  }
}
