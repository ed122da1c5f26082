/** Installs uv, which chooses Python packages: `npm run uv` puts it into .uv, where the next start of the server finds it. */
import { fileURLToPath } from 'node:url';
import { uvVersion } from '../test/world/tools.ts';
import { ending, handleEnding } from './tools/ending.ts';
import { fetchUv } from './tools/uv.ts';

const folder = fileURLToPath(new URL('../.uv', import.meta.url));

// Set by a server: the installation ends with it.
handleEnding(process.argv.includes('--leashed'));
try {
  await fetchUv(folder);
  console.log(`uv ${uvVersion} is in ${folder}`);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = ending.aborted ? 130 : 1;
}
// Standard input may still be open.
process.exit();
