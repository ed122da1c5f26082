import { existsSync, globSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { apptainerDirectory } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { privateApt } from './private-apt.ts';
import { run } from './run.ts';

// No stable suite contains Apptainer. Its package runs anywhere with a newer C library beside it.
const suite = 'sid';
const packages = ['apptainer', 'siftool', 'squashfs-tools', 'squashfuse', 'patchelf'];
// Dependencies that the tests do not use.
const unused = /^(?:containernetworking-plugins|debconf|openssl|libc-gconv|ca-certificates)/;
const programs = [
  ...['apptainer', 'siftool', 'mksquashfs', 'unsquashfs', 'squashfuse', 'squashfuse_ll'].map(
    name => `usr/bin/${name}`,
  ),
  'usr/lib/*-linux-gnu/apptainer/bin/starter',
];

export function hasApptainer(): boolean {
  return existsSync(apptainerDirectory());
}

/**
 * Installs Apptainer in its own directory, for this machine's architecture, with its dependencies, the required
 * libraries, and an emulator of arm64. Changes nothing on the machine.
 */
export async function buildApptainer(mirror: string): Promise<void> {
  const target = apptainerDirectory();
  await makeFolder(
    { destination: target, isThere: hasApptainer, doing: 'Fetching Apptainer' },
    async folder => {
      const root = join(folder, 'root');
      const apt = await privateApt(join(folder, 'apt'), { mirror, suite });
      await unpackPackages(join(folder, 'apt'), root, apt);
      await unpackEmulator(join(folder, 'apt'), root, apt);
      await relocate(root, target);
      await configure(root);
      return root;
    },
  );
}

type Environment = Record<string, string>;

async function unpackPackages(folder: string, root: string, apt: Environment): Promise<void> {
  await mkdir(root, { recursive: true });
  await run('apt-get', ['install', '-y', '--download-only', ...packages], apt);
  const archives = join(folder, 'cache/archives');
  for (const file of await readdir(archives)) {
    if (!file.endsWith('.deb') || unused.test(file)) continue;
    await run('dpkg-deb', ['-x', join(archives, file), root]);
  }
  for (const name of ['doc', 'man', 'locale']) {
    await rm(join(root, 'usr/share', name), { recursive: true, force: true });
  }
}

/** One of the emulators is enough; all of them have hundreds of megabytes. */
async function unpackEmulator(folder: string, root: string, apt: Environment): Promise<void> {
  const download = join(folder, 'emulator');
  await mkdir(download);
  await run('sh', ['-c', 'cd "$1" && apt-get download qemu-user', 'sh', download], apt);
  const extract = 'dpkg-deb --fsys-tarfile "$1"/*.deb | tar -x -C "$2" ./usr/bin/qemu-aarch64';
  await run('sh', ['-c', extract, 'sh', download, root]);
}

/** Makes the programs find the loader and the libraries beside them, at their final place. */
async function relocate(root: string, target: string): Promise<void> {
  const loader = only(root, 'usr/lib/*-linux-gnu/ld-linux-*.so.*');
  const libraries = loader.slice(0, loader.lastIndexOf('/'));
  const patchelf = [
    ...['--library-path', join(root, libraries), join(root, 'usr/bin/patchelf')],
    // RPATH instead of RUNPATH, because dependencies of libraries follow only RPATH.
    ...['--set-interpreter', join(target, loader)],
    ...['--force-rpath', '--set-rpath', join(target, libraries)],
  ];
  for (const program of programs) {
    await run(join(root, loader), [...patchelf, join(root, only(root, program))]);
  }
}

async function configure(root: string): Promise<void> {
  // The two programs look for these beside themselves, and are in different folders.
  for (const place of ['usr', 'usr/lib']) {
    const up = place
      .split('/')
      .map(() => '..')
      .join('/');
    for (const name of ['etc', 'var']) await symlink(`${up}/${name}`, join(root, place, name));
  }
  await mkdir(join(root, 'var/lib/apptainer/mnt/session'), { recursive: true });
  const file = join(root, 'etc/apptainer/apptainer.conf');
  const text = await readFile(file, 'utf8');
  // Root in a container or on a small machine may lack capabilities, and a request for a missing one fails.
  const capabilities = /^root default capabilities = .*$/m;
  if (!capabilities.test(text)) throw new Error(`${file} has no line about capabilities`);
  await writeFile(file, text.replace(capabilities, 'root default capabilities = no'));
  await chmod(root, 0o755);
}

function only(root: string, pattern: string): string {
  const [found, ...others] = globSync(pattern, { cwd: root });
  if (found === undefined || others.length > 0) {
    throw new Error(`The packages have ${found ? 'several' : 'no'} ${pattern}`);
  }
  return found;
}
