/**
 * What npm runs after it has installed the packages: it removes large parts of packages that nothing here reads, and makes
 * the bundle. JavaScript, because a Node that does not run TypeScript may install the packages.
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

const hasDevelopmentPackages = existsSync(new URL('esbuild', packages));
if (hasDevelopmentPackages && process.features.typescript) {
  const { makeBundle } = await import('./bundle.ts');
  await makeBundle();
} else if (!hasDevelopmentPackages && !existsSync(new URL('../.bundle', import.meta.url))) {
  console.error(
    'Sluice does not run from a checkout without its development packages and without a bundle. Run npm ci, which makes the bundle, and then npm prune --omit=dev.',
  );
}
