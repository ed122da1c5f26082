import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type BusyboxArchitecture, busyboxPath, suites } from '../../test/world/tools.ts';
import { lock } from './lock.ts';
import { run } from './run.ts';

const architectures: readonly BusyboxArchitecture[] = ['amd64', 'arm64'];

export function hasBusybox(): boolean {
  return architectures.every(architecture => existsSync(busyboxPath(architecture)));
}

/** Fetches the static busybox of both architectures, past the machine's own package database. */
export async function buildBusybox(mirror: string): Promise<void> {
  const target = dirname(busyboxPath('amd64'));
  using _lock = await lock(basename(target));
  if (hasBusybox()) return;
  console.log(`Fetching busybox to ${target}`);
  const folder = `${target}.unfinished`;
  // What a run left behind that was killed; the lock says that no other is at it.
  await rm(folder, { recursive: true, force: true });
  try {
    const apt = await privateApt(folder, mirror);
    await run('apt-get', ['update'], apt);
    for (const architecture of architectures) {
      await fetchBusybox(folder, architecture, apt);
    }
    await rename(join(folder, 'result'), target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** An apt with lists, cache and sources of its own, in which both architectures are known. */
async function privateApt(folder: string, mirror: string): Promise<Record<string, string>> {
  for (const name of ['lists/partial', 'cache/archives/partial', 'result']) {
    await mkdir(join(folder, name), { recursive: true });
  }
  const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
  const source = `deb [arch=${architectures} signed-by=${keyring}] ${mirror} ${suites[0]} main\n`;
  await writeFile(join(folder, 'sources.list'), source);
  await writeFile(join(folder, 'status'), '');
  const settings = [
    `Dir::Etc::sourcelist "${join(folder, 'sources.list')}";`,
    'Dir::Etc::sourceparts "/dev/null";',
    `Dir::State::lists "${join(folder, 'lists')}";`,
    `Dir::State::status "${join(folder, 'status')}";`,
    `Dir::Cache "${join(folder, 'cache')}";`,
    `APT::Architectures { ${architectures.map(name => `"${name}"`).join('; ')}; };`,
    'Acquire::Languages "none";',
    'Acquire::Check-Valid-Until "false";',
    'APT::Sandbox::User "root";',
  ];
  const config = join(folder, 'apt.conf');
  await writeFile(config, `${settings.join('\n')}\n`);
  return { APT_CONFIG: config };
}

async function fetchBusybox(
  folder: string,
  architecture: BusyboxArchitecture,
  apt: Record<string, string>,
): Promise<void> {
  const download = join(folder, architecture);
  await mkdir(download);
  const name = `busybox-static:${architecture}`;
  await run('sh', ['-c', `cd "$1" && apt-get download "$2"`, 'sh', download, name], apt);
  const [file] = await readdir(download);
  if (file === undefined) throw new Error(`apt-get downloaded no ${name}`);
  await run('dpkg-deb', ['-x', join(download, file), join(download, 'files')]);
  const places = ['usr/bin/busybox', 'bin/busybox'].map(path => join(download, 'files', path));
  const busybox = places.find(path => existsSync(path));
  if (busybox === undefined) throw new Error(`${file} has no busybox`);
  await copyFile(busybox, join(folder, 'result', architecture));
}
