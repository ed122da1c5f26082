import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { compiledDirectory, type SourceProgram } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { run } from './run.ts';

/** Runs a command of Go, whose programs go into the folder. Its caches can be removed like other files. */
export function go(folder: string, ...args: string[]): Promise<string> {
  return goWith({}, folder, ...args);
}

function goWith(
  env: Readonly<Record<string, string>>,
  folder: string,
  ...args: readonly string[]
): Promise<string> {
  return run('nice', ['-n', '19', 'go', ...args], {
    ...env,
    GOBIN: folder,
    CGO_ENABLED: '0',
    GOFLAGS: `${process.env.GOFLAGS ?? ''} -modcacherw`.trim(),
  });
}

const smaller = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w'];

/** Compiles a program from the Go module proxy, such as `example.org/cmd/program@v1.2.3`, into the folder. */
export async function installProgram(
  folder: string,
  program: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  await goWith(env, folder, 'install', ...smaller, program);
}

/** Returns where a module from the Go module proxy is, such as `example.org/module@v1.2.3`: its go.mod, its folder, and its archive. */
export async function downloadModule(
  folder: string,
  module: string,
): Promise<{ readonly GoMod: string; readonly Dir: string; readonly Zip: string }> {
  return JSON.parse(await go(folder, 'mod', 'download', '-json', module));
}

export function hasCompiled(program: SourceProgram): boolean {
  return existsSync(compiledDirectory(program));
}

/** Compiles a program of this project, with its libraries from the Go module proxy. */
export async function compile(program: SourceProgram): Promise<void> {
  const wanted = {
    destination: compiledDirectory(program),
    isThere: () => hasCompiled(program),
    doing: `Compiling the ${program.what}`,
  };
  await makeFolder(wanted, async folder => {
    const place = ['-o', join(folder, program.name)];
    await go(folder, 'build', '-C', program.source, ...smaller, ...place, '.');
    return folder;
  });
}
