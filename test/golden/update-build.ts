/**
 * Writes the recipe of every case: `npx node test/golden/update-build.ts`.
 * A recipe that makes another image than before requires a new `condaRecipeVersion`; otherwise images of the old recipe
 * count as images of the new one. Use `--same-image` when only words have changed.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { condaRecipeVersion } from '../../src/builds/recipe/conda/install/conda-recipe.ts';
import { buildCases } from './build-cases.ts';
import { built, isRecipe } from './built.ts';

const root = join(import.meta.dirname, 'build');
const versionFile = join(root, 'recipe-version.txt');
const version = `${condaRecipeVersion}\n`;

const results = Object.entries(buildCases).map(([name, submitted]) => ({
  name,
  files: built(submitted),
}));
const changed = results.filter(({ name, files }) =>
  [...files].some(([path, text]) => {
    const file = join(root, name, path);
    return isRecipe(path) && existsSync(file) && readFileSync(file, 'utf8') !== text;
  }),
);
const isSameVersion = existsSync(versionFile) && readFileSync(versionFile, 'utf8') === version;
if (changed.length > 0 && isSameVersion && !process.argv.includes('--same-image')) {
  const names = changed.map(({ name }) => name).join(', ');
  console.error(
    `The recipes of ${names} changed: count condaRecipeVersion up, or say --same-image`,
  );
  process.exit(1);
}
rmSync(root, { recursive: true, force: true });
for (const { name, files } of results) {
  for (const [path, text] of files) {
    mkdirSync(dirname(join(root, name, path)), { recursive: true });
    writeFileSync(join(root, name, path), text);
  }
}
writeFileSync(versionFile, version);
