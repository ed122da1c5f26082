import { existsSync, readFileSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toolsDirectory } from '../../test/world/tools.ts';
import { buildWithDebiansGo } from './buildkit-debian-go.ts';
import { buildFromDebian } from './buildkit-debian-source.ts';
import { buildWithGo, programs } from './buildkit-go.ts';
import { type Machine, type Road, roadsOf } from './buildkit-roads.ts';
import { ending } from './ending.ts';
import { lock } from './lock.ts';
import { run } from './run.ts';

export function hasBuildkit(directory: string): boolean {
  return programs.every(name => existsSync(join(directory, name)));
}

/** Compiles into the folder `result`. May use `scratch` for everything else. */
type Build = (result: string, scratch: string) => Promise<void>;

const builds: Readonly<Record<Road, Build>> = {
  go: buildWithGo,
  'debian-go': buildWithDebiansGo,
  'debian-source': buildFromDebian,
};

const scratchPrefix = 'buildkit-scratch-';

const elsewhere = "start a builder with Docker: 'docker compose -f builder/compose.yaml up -d'";

/**
 * Installs buildkitd and buildctl in the directory. No package contains these Go programs, so it compiles them in the
 * first way that this machine supports. Throws an error with a remedy if there is none.
 */
export async function buildBuildkit(directory: string): Promise<void> {
  using _lock = await lock('buildkit');
  if (hasBuildkit(directory)) return;
  const roads = roadsOf(await examineMachine());
  const failures: string[] = [];
  await removeLeftovers();
  for (const road of roads) {
    const scratch = await mkdtemp(join(toolsDirectory(), scratchPrefix));
    console.log(`Building BuildKit (${road})`);
    try {
      const result = join(scratch, 'result');
      await mkdir(result);
      await builds[road](result, scratch);
      return await place(result, directory);
    } catch (error) {
      ending.throwIfAborted();
      failures.push(`${road}: ${(error as Error).message}`);
      console.error(`BuildKit cannot be built this way (${failures.at(-1)})`);
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  }
  const why = failures.length > 0 ? 'see above' : 'there is no Go, and this is not Debian as root';
  throw new Error(`BuildKit cannot be built (${why}): install Go 1.26 or newer, or ${elsewhere}`);
}

/** The leftovers of a killed run: the lock excludes other runs. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(toolsDirectory())) {
    if (!name.startsWith(scratchPrefix)) continue;
    await rm(join(toolsDirectory(), name), { recursive: true, force: true });
  }
}

async function examineMachine(): Promise<Machine> {
  return {
    go: await versionOfGo(),
    isDebian: existsSync('/etc/debian_version') && /^ID=debian$/m.test(osRelease()),
    isRoot: process.getuid?.() === 0,
  };
}

async function versionOfGo(): Promise<string | undefined> {
  try {
    return /\bgo(\d+\.\S+)/.exec(await run('go', ['version']))?.[1];
  } catch {
    return undefined;
  }
}

function osRelease(): string {
  return existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : '';
}

/** Each program appears complete, and the daemon last, because other processes look for it. */
async function place(result: string, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  for (const name of [...programs].reverse()) {
    const unfinished = join(directory, `${name}.unfinished`);
    await copyFile(join(result, name), unfinished);
    await chmod(unfinished, 0o755);
    await rename(unfinished, join(directory, name));
  }
}
