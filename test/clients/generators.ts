import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { toolsDirectory } from '../world/tools.ts';

const run = promisify(execFile);

/** A folder where clients are generated, compiled and run. */
export interface Workshop extends TempDir {
  /** Runs a program of the generators with Node. */
  run(program: string, ...args: string[]): Promise<string>;
  /** Compiles a file in the strictest way, with all that it imports, and runs it. Returns what it prints. */
  use(name: string, text: string, ...args: string[]): Promise<string>;
}

const programs: Readonly<Record<string, string>> = {
  'openapi-typescript': 'openapi-typescript/bin/cli.js',
  'openapi-ts': '@hey-api/openapi-ts/bin/run.js',
  tsc: 'typescript/bin/tsc',
};

/** Makes a folder with the generators and the documents of both APIs. */
export async function openWorkshop(): Promise<Workshop> {
  const modules = await install();
  const folder = await makeTempDir('clients');
  await symlink(modules, folder.join('node_modules'));
  for (const name of ['openapi.json', 'platform-openapi.json']) {
    await cp(join(import.meta.dirname, '../../docs', name), folder.join(name));
  }
  await writeFile(folder.join('package.json'), '{"type": "module"}');
  const runHere: Workshop['run'] = async (program, ...args) => {
    const file = resolve(modules, programs[program] ?? program);
    const found = await run(process.execPath, [file, ...args], { cwd: folder.path }).catch(
      error => {
        throw new Error(`${program}: ${error.stdout}${error.stderr}`);
      },
    );
    return found.stdout;
  };
  return {
    ...folder,
    run: runHere,
    async use(name, text, ...args) {
      await writeFile(folder.join(name), text);
      const strict = ['--strict', '--noEmit', '--target', 'es2022', '--module', 'nodenext'];
      await runHere('tsc', ...strict, '--allowImportingTsExtensions', '--skipLibCheck', name);
      return runHere(folder.join(name), ...args);
    },
  };
}

/** Installs the generators of the lock file beside this one, once for all runs. Returns their modules. */
async function install(): Promise<string> {
  const lock = await readFile(join(import.meta.dirname, 'package-lock.json'));
  const hash = createHash('sha256').update(lock).digest('hex').slice(0, 12);
  const place = join(toolsDirectory(), `clients-${hash}`);
  if (!existsSync(place)) {
    await mkdir(toolsDirectory(), { recursive: true });
    const begun = await mkdtemp(`${place}-`);
    for (const name of ['package.json', 'package-lock.json']) {
      await cp(join(import.meta.dirname, name), join(begun, name));
    }
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: begun });
    // Another run may have been faster.
    await rename(begun, place).catch(() => rm(begun, { recursive: true }));
  }
  return join(place, 'node_modules');
}
