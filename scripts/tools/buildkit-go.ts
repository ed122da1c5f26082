import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { buildkitSum, buildkitVersion } from '../../test/world/tools.ts';
import { run } from './run.ts';

/** The compiled programs. */
export const programs = ['buildkitd', 'buildctl'] as const;

const module = 'github.com/moby/buildkit';

/** Runs a program and returns its output. */
export type Runner = (command: string, ...args: string[]) => Promise<string>;

/**
 * Compiles BuildKit from the Go module proxy. `go install` refuses it (its go.mod excludes versions), so it is built in
 * Go's module cache.
 * @param runner runs Go on its machine; `result` is a folder there
 */
export async function compileModule(runner: Runner, result: string): Promise<void> {
  console.log(`Downloading the modules of BuildKit ${buildkitVersion}`);
  const found = await runner('go', 'mod', 'download', '-json', `${module}@v${buildkitVersion}`);
  const { Dir: source, Sum: sum } = JSON.parse(found) as { Dir: string; Sum: string };
  if (sum !== buildkitSum) {
    throw new Error(
      `the module proxy has another BuildKit ${buildkitVersion}: ${sum} in place of ${buildkitSum}`,
    );
  }
  console.log('Compiling BuildKit');
  await runner(
    ...(['nice', '-n', '19', 'go', 'build', '-C', source] as const),
    ...['-trimpath', '-buildvcs=false', '-ldflags', linkerFlags(`v${buildkitVersion}`)],
    ...['-o', `${result}/`, ...programs.map(name => `./cmd/${name}`)],
  );
}

/** Without symbols, and with the version that the program reports. */
export function linkerFlags(version: string): string {
  return `-s -w -X ${module}/version.Version=${version}`;
}

/**
 * Compiles BuildKit with the machine's own Go. Go's caches are in the scratch folder and removed with it, unless the
 * environment names them (`GOMODCACHE`, `GOCACHE`).
 */
export async function buildWithGo(result: string, scratch: string): Promise<void> {
  const folders = { GOMODCACHE: 'modules', GOCACHE: 'compiled', GOTMPDIR: 'tmp' };
  const variables: Record<string, string> = {
    CGO_ENABLED: '0',
    GOFLAGS: `${process.env.GOFLAGS ?? ''} -modcacherw`.trim(),
  };
  for (const [variable, name] of Object.entries(folders)) {
    const folder = process.env[variable] ?? join(scratch, name);
    variables[variable] = folder;
    await mkdir(folder, { recursive: true });
  }
  await compileModule((command, ...args) => run(command, args, variables), result);
}
