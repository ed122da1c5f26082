/**
 * What npm runs after it has installed the packages: it removes large parts of packages that nothing here reads, makes the
 * bundle, and without the packages for development removes those that are in the bundle. JavaScript, because a Node that does not run TypeScript may install the packages.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs';

const { arch, platform } = process;
const packages = new URL('../node_modules/', import.meta.url);

const remove = path => rmSync(new URL(path, packages), { recursive: true, force: true });

// Headers for programs in C: a third of the package of Node.
remove(`node-${platform}-${arch}/include`);

// The sources of SQLite, and its programs for other systems.
for (const name of ['deps', 'src']) remove(`better-sqlite3/${name}`);
const prebuilds = new URL('better-sqlite3/prebuilds/', packages);
for (const name of existsSync(prebuilds) ? readdirSync(prebuilds) : []) {
  const isOwn = name.startsWith(platform) && name.endsWith(`-${arch}.node`);
  if (!isOwn) remove(`better-sqlite3/prebuilds/${name}`);
}

// An older Node cannot run the bundler, and then runs the sources.
if (process.features.typescript && existsSync(new URL('esbuild', packages))) {
  const { bundledPackages, makeBundle } = await import('./bundle.ts');
  await makeBundle();
  // After `npm ci --omit=dev`, the bundle serves; whoever works on the sources has the packages for development.
  if (!existsSync(new URL('typescript', packages))) {
    for (const folder of bundledPackages()) {
      rmSync(new URL(`../${folder}`, import.meta.url), { recursive: true, force: true });
    }
  }
}
