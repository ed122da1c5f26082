import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../', import.meta.url));
// `scripts/bundle.ts` makes it.
const bundle = new URL('../.bundle/', import.meta.url);

/** Returns the address of the program in the bundle; undefined if there is none, or if a source file has changed since. */
export function currentBundle() {
  const program = new URL('main.js', bundle);
  if (!statSync(program, { throwIfNoEntry: false })) return undefined;
  return statesOfSources().every(isUnchanged) ? program.href : undefined;
}

/** Returns the address of the file that servers run, which has the whole bundle; undefined where only its parts can run. */
export function serverBundle() {
  // Node reads source maps of modules only.
  if (process.sourceMapsEnabled) return undefined;
  const program = new URL('server.cjs', bundle);
  return statSync(program, { throwIfNoEntry: false }) && program.href;
}

/** Returns path, time and size of each source file. A package and an image have no sources. */
function statesOfSources() {
  try {
    return JSON.parse(readFileSync(new URL('sources.json', bundle), 'utf8'));
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return [];
  }
}

function isUnchanged([path, time, size]) {
  const found = statSync(project + path, { throwIfNoEntry: false });
  return found?.mtimeMs === time && found.size === size;
}
