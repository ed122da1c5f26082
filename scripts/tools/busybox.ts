import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BusyboxArchitecture, busyboxPath, suites } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { privateApt } from './private-apt.ts';
import { run } from './run.ts';

const architectures: readonly BusyboxArchitecture[] = ['amd64', 'arm64'];

export function hasBusybox(): boolean {
  return architectures.every(architecture => existsSync(busyboxPath(architecture)));
}

/** Downloads the static busybox for both architectures, without the machine's package database. */
export async function buildBusybox(mirror: string): Promise<void> {
  await makeFolder(
    { destination: dirname(busyboxPath('amd64')), isThere: hasBusybox, doing: 'Fetching busybox' },
    async folder => {
      const apt = await privateApt(folder, { mirror, suite: suites[0], architectures });
      await mkdir(join(folder, 'result'));
      for (const architecture of architectures) {
        await fetchBusybox(folder, architecture, apt);
      }
      return join(folder, 'result');
    },
  );
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
