import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { buildkitVersion } from '../../test/world/tools.ts';

const run = promisify(execFile);

const module = `github.com/moby/buildkit@v${buildkitVersion}`;

export function hasBuildkit(directory: string): boolean {
  return ['buildkitd', 'buildctl'].every(name => existsSync(join(directory, name)));
}

/**
 * Compiles buildkitd and buildctl into the directory. They are Go programs of which nobody has a
 * package; `go install` refuses them (their go.mod excludes versions), so they are built where Go's
 * module cache has them. Throws an error that tells what to do where Go is missing.
 */
export async function buildBuildkit(directory: string): Promise<void> {
  const source = await download();
  await mkdir(directory, { recursive: true });
  const env = { ...process.env, CGO_ENABLED: '0' };
  const version = `-X github.com/moby/buildkit/version.Version=v${buildkitVersion}`;
  await run(
    'go',
    [
      ...['build', '-C', source, '-trimpath', '-buildvcs=false', '-ldflags', `-s -w ${version}`],
      ...['-o', `${directory}/`, './cmd/buildkitd', './cmd/buildctl'],
    ],
    { env, maxBuffer: 64 * 1024 * 1024 },
  );
}

async function download(): Promise<string> {
  try {
    const { stdout } = await run('go', ['mod', 'download', '-json', module]);
    return (JSON.parse(stdout) as { Dir: string }).Dir;
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    const why = isMissing ? 'Go is not installed' : String((error as Error).message);
    throw new Error(
      `BuildKit cannot be built (${why}): install Go 1.26 or newer, or start a builder elsewhere, such as 'docker run -d --privileged --name buildkitd -v /run/buildkit:/run/buildkit moby/buildkit'`,
      { cause: error },
    );
  }
}
