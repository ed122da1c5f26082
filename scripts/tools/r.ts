import { existsSync, globSync } from 'node:fs';
import { chmod, copyFile, mkdir, readdir, rm, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { rDirectory } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { privateApt } from './private-apt.ts';
import { run } from './run.ts';

// The oldest suite whose renv installs older versions of packages by itself.
const suite = 'trixie';
const packages = [
  ...['r-base-core', 'r-cran-renv', 'bash', 'dash', 'coreutils', 'debianutils', 'findutils'],
  ...['grep', 'gzip', 'libc-bin', 'mawk', 'sed', 'tar'],
];
// What R does not need to install packages and to run.
const unused = ['doc', 'fonts', 'icons', 'locale', 'man', 'X11'].map(name => `usr/share/${name}`);

export function hasR(): boolean {
  return existsSync(rDirectory());
}

/** Downloads a small Debian with R and renv into a folder, to make an image of. Changes nothing on the machine. */
export async function buildR(mirror: string): Promise<void> {
  await makeFolder(
    { destination: rDirectory(), isThere: hasR, doing: 'Fetching R' },
    async folder => {
      const root = join(folder, 'root');
      await unpack(join(folder, 'apt'), root, mirror);
      await configure(root);
      return root;
    },
  );
}

async function unpack(folder: string, root: string, mirror: string): Promise<void> {
  const apt = await privateApt(folder, { mirror, suite });
  await run('apt-get', ['install', '-y', '--download-only', ...packages], apt);
  await mkdir(root, { recursive: true });
  const archives = join(folder, 'cache/archives');
  for (const file of await readdir(archives)) {
    if (file.endsWith('.deb')) await run('dpkg-deb', ['-x', join(archives, file), root]);
  }
  for (const path of [...unused, 'usr/lib/R/library/translations']) {
    await rm(join(root, path), { recursive: true, force: true });
  }
}

/** Does what the installation of the packages does, as far as R needs it. */
async function configure(root: string): Promise<void> {
  await copyFile(join(root, 'usr/lib/R/etc/Renviron.ucf'), join(root, 'etc/R/Renviron'));
  await mkdir(join(root, 'usr/local/lib/R/site-library'), { recursive: true });
  await chmod(join(root, 'tmp'), 0o1777);
  const link = async (target: string, path: string) => {
    await rm(join(root, path), { force: true });
    await symlink(target, join(root, path));
  };
  await link('which.debianutils', 'usr/bin/which');
  await link('dash', 'usr/bin/sh');
  for (const path of globSync('usr/lib/*/{blas,lapack}/*.so.3', { cwd: root })) {
    const [library, folder] = [basename(path), basename(join(path, '..'))];
    await link(`${folder}/${library}`, join(path, '../..', library));
  }
}
