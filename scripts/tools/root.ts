import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { rootDirectory, rootRecipes, type Suite } from '../../test/world/tools.ts';
import { lock } from './lock.ts';
import { run } from './run.ts';

/** Makes the private root of a suite with debootstrap. It appears under its name only when it is complete. */
export async function buildRoot(suite: Suite, mirror: string): Promise<void> {
  const target = rootDirectory(suite);
  using _lock = await lock(basename(target));
  if (existsSync(target)) return;
  const started = Date.now();
  console.log(`Making the ${suite} root in ${target}`);
  const root = `${target}.unfinished`;
  // The leftovers of a killed run: the lock excludes other runs.
  await rm(root, { recursive: true, force: true });
  await mkdir(root);
  try {
    await bootstrap(suite, root, mirror);
    await install(root, rootRecipes[suite].packages);
    await rename(root, target);
  } catch (error) {
    await rm(root, { recursive: true, force: true });
    throw error;
  }
  console.log(`Made the ${suite} root in ${Math.round((Date.now() - started) / 1000)} s`);
}

/** Fills the directory with the smallest system of the suite, and configures apt in it. */
export async function bootstrap(suite: Suite, root: string, mirror: string): Promise<void> {
  const script = `/usr/share/debootstrap/scripts/${rootRecipes[suite].script}`;
  await isolated([], 'debootstrap', '--variant=minbase', suite, root, mirror, script);
  await writeFile(join(root, 'usr/sbin/policy-rc.d'), '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  // The archive's snapshot on a mirror may be past its validity.
  const apt = [
    'Acquire::Check-Valid-Until "false";',
    'APT::Install-Recommends "false";',
    'Acquire::Languages "none";',
  ];
  await writeFile(join(root, 'etc/apt/apt.conf.d/90tools'), `${apt.join('\n')}\n`);
  const dpkg = ['force-unsafe-io', ...['doc', 'man', 'locale'].map(excludeShare)];
  await writeFile(join(root, 'etc/dpkg/dpkg.cfg.d/tools'), `${dpkg.join('\n')}\n`);
  await inside(root, 'apt-get', 'update');
}

/** Runs a program in the root with its own /proc. */
export function inside(root: string, ...command: string[]): Promise<string> {
  return isolated([`--mount-proc=${root}/proc`], 'chroot', root, ...command);
}

/** Running programs and mounts end with the program, and the program ends with this process. */
function isolated(flags: readonly string[], ...command: string[]): Promise<string> {
  const unshare = ['unshare', '--mount', '--pid', '--fork', '--kill-child', ...flags];
  return run('setpriv', ['--pdeathsig', 'KILL', ...unshare, ...command]);
}

async function install(root: string, packages: readonly string[]): Promise<void> {
  await inside(root, 'apt-get', 'install', '-y', ...packages);
  await inside(root, 'apt-get', 'clean');
  await rm(join(root, 'var/lib/apt/lists'), { recursive: true });
}

function excludeShare(folder: string): string {
  return `path-exclude=/usr/share/${folder}/*`;
}
