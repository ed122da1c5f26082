import { globSync } from 'node:fs';
import { cp, glob, readFile, rm, writeFile } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { bundleName, makeBundle, sourcesName, unbundled } from '../bundle.ts';
import { checkStarted, compile, declare, project } from './compile.ts';

interface PackageJson {
  readonly [member: string]: unknown;
  readonly exports: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
}

const compiled = (path: string) => path.replace(/\.ts$/, '.js');
const declared = (path: string) => path.replace(/\.ts$/, '.d.ts');

/** Fills a folder with the package `sluice`: the server, all commands, and the two libraries with their types. */
export async function fillServer(folder: string): Promise<void> {
  const { dependencies, optionalDependencies, exports, ...rest } = await readPackageJson();
  const entries = Object.values(exports).filter(path => path.endsWith('.ts'));
  await compile(entries, folder);
  const imported = await keepImported(folder, entries.map(compiled));
  await checkStarted(folder);
  await declare(entries, folder);
  await makeBundle(folder);
  // The package has no sources that could change.
  await rm(join(folder, bundleName, sourcesName));
  await copy(
    '{bin/*.js,src/**/*.{sh,md,wasm},src/pages/**/*.{css,js,svg,gz},src/pages/docs/swagger/{LICENSE,NOTICE},docs/**/*.{md,png},LICENSE,README.md}',
    folder,
  );
  const doors = Object.entries(exports).map(([name, path]) => [
    name,
    path.endsWith('.ts') ? { types: declared(path), default: compiled(path) } : path,
  ]);
  await writePackageJson(folder, {
    ...common(rest),
    bin: rest.bin,
    exports: Object.fromEntries(doors),
    dependencies: among(dependencies, new Set([...unbundled, ...imported])),
    optionalDependencies,
  });
}

/** Fills a folder with the package `sluice-cli`: the commands that need a server only. */
export async function fillClient(folder: string): Promise<void> {
  const { dependencies, ...rest } = await readPackageJson();
  const program = 'src/cli/client/client-main.ts';
  await compile([program], folder);
  const imported = await keepImported(folder, [compiled(program)]);
  // Not before: a door that only types come from names files that start programs.
  await checkStarted(folder);
  await copy('LICENSE', folder);
  await cp(join(project, 'scripts/packages/sluice-cli.md'), join(folder, 'README.md'));
  await writePackageJson(folder, {
    ...common(rest),
    name: 'sluice-cli',
    description: 'Command line of Sluice, a container registry proxy with an on-demand builder',
    bin: { sluice: 'src/cli/client/client-main.js' },
    dependencies: among(dependencies, imported),
  });
}

function among(dependencies: PackageJson['dependencies'], names: ReadonlySet<string>) {
  return Object.fromEntries(Object.entries(dependencies).filter(([name]) => names.has(name)));
}

function common({ name, version, description, license, type, engines }: Partial<PackageJson>) {
  return { name, version, description, license, type, engines, ...addresses() };
}

/** Returns where the sources of a release are. npm requires it for the provenance of packages. */
function addresses() {
  const { SLUICE_REPOSITORY: url } = process.env;
  if (!url) return {};
  return {
    repository: { type: 'git', url: `git+${url}.git` },
    homepage: `${url}#readme`,
    bugs: { url: `${url}/issues` },
  };
}

// Type imports are gone from compiled files.
const runtimeImport = /\b(?:from|import|import\()\s*['"]([^'"]+)['"]/g;

/**
 * Removes the compiled files that no given file imports: the compiler also compiles what is only imported as a type.
 * Returns the names of the packages that they import.
 */
async function keepImported(folder: string, programs: readonly string[]): Promise<Set<string>> {
  const packages = new Set<string>();
  const kept = new Set<string>();
  const visit = async (path: string): Promise<void> => {
    if (kept.has(path)) return;
    kept.add(path);
    const text = await readFile(join(folder, path), 'utf8');
    for (const [, specifier = ''] of text.matchAll(runtimeImport)) {
      if (specifier.startsWith('.')) await visit(join(dirname(path), specifier));
      else if (!isBuiltin(specifier)) packages.add(packageOf(specifier));
    }
  };
  for (const program of programs) await visit(join(program));
  for (const path of globSync('**/*.js', { cwd: folder })) {
    if (!kept.has(path)) await rm(join(folder, path));
  }
  return packages;
}

function packageOf(specifier: string): string {
  const parts = specifier.split('/');
  return parts.slice(0, specifier.startsWith('@') ? 2 : 1).join('/');
}

async function copy(pattern: string, folder: string): Promise<void> {
  for await (const path of glob(pattern, { cwd: project })) {
    await cp(join(project, path), join(folder, path));
  }
}

async function readPackageJson(): Promise<PackageJson> {
  return JSON.parse(await readFile(join(project, 'package.json'), 'utf8'));
}

async function writePackageJson(folder: string, content: object): Promise<void> {
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(content, undefined, 2)}\n`);
}
