import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const project = fileURLToPath(new URL('../..', import.meta.url));

// Node 20 and 22 do not know `using`: the compiler replaces it.
const target = 'es2023';

// Threads and programs are started by their path, which the compiler does not rewrite.
const fileUrl = /new URL\((['"])([^'"]+)\.ts\1, import\.meta\.url\)/g;

/**
 * Compiles TypeScript files and everything they import into a folder, with the paths they have in the project.
 * Throws an `Error` with the compiler's messages.
 *
 * @param files paths within the project
 */
export async function compile(files: readonly string[], folder: string): Promise<void> {
  await runCompiler(files, folder, { allowJs: true });
  for await (const path of glob('**/*.js', { cwd: folder })) {
    const file = join(folder, path);
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replaceAll(fileUrl, 'new URL($1$2.js$1, import.meta.url)'));
  }
  await copyGenerated(folder, '.js');
}

/** Throws an `Error` if a compiled file starts a program that is not in the folder. */
export async function checkStarted(folder: string): Promise<void> {
  const started = /new URL\((['"])([^'"]+\.js)\1, import\.meta\.url\)/g;
  for await (const path of glob('**/*.js', { cwd: folder })) {
    const file = join(folder, path);
    for (const [, , address = ''] of (await readFile(file, 'utf8')).matchAll(started)) {
      if (existsSync(join(dirname(file), address))) continue;
      throw new Error(`${path} starts ${address}, which is not packed`);
    }
  }
}

/** Writes the type declarations of files, and of everything they import, beside the compiled files. */
export async function declare(files: readonly string[], folder: string): Promise<void> {
  await runCompiler(files, folder, { declaration: true, emitDeclarationOnly: true });
  for await (const path of glob('**/*.d.ts', { cwd: folder })) {
    const file = join(folder, path);
    const text = await readFile(file, 'utf8');
    // The compiler rewrites imports in programs only.
    await writeFile(
      file,
      text.replaceAll(/((?:from |import\()['"]\.[^'"]+)\.ts(['"])/g, '$1.js$2'),
    );
  }
  await copyGenerated(folder, '.d.ts');
}

async function runCompiler(files: readonly string[], folder: string, more: object): Promise<void> {
  const configuration = {
    extends: join(project, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      outDir: folder,
      rootDir: project,
      target,
      rewriteRelativeImportExtensions: true,
      typeRoots: [join(project, 'node_modules/@types')],
      ...more,
    },
    files: files.map(path => join(project, path)),
    include: [],
  };
  await mkdir(folder, { recursive: true });
  const file = join(folder, 'tsconfig.json');
  await writeFile(file, JSON.stringify(configuration));
  const compiler = join(project, 'node_modules/.bin/tsc');
  const { status, stdout } = spawnSync(compiler, ['-p', file], { encoding: 'utf8' });
  await rm(file);
  if (status !== 0) throw new Error(`The compiler failed:\n${stdout}`);
}

/** Copies generated files where compiled ones need them: the compiler only reads their declarations. */
async function copyGenerated(folder: string, extension: string): Promise<void> {
  if (!existsSync(join(folder, 'src/buildkit/grpc/channel.js'))) return;
  const generated = 'src/buildkit/gen';
  await cp(join(project, generated), join(folder, generated), {
    recursive: true,
    filter: path => extname(path) === '' || path.endsWith(extension),
  });
}
