import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { condaDirectory, suites } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { privateApt } from './private-apt.ts';
import { run } from './run.ts';

const suite = suites[0];
// A shell with the commands that builds use, Python, a program that prints the version of the C library, and
// certificates.
const packages = [
  ...['dash', 'bash', 'coreutils', 'sed', 'grep', 'python3', 'python3-yaml', 'libc-bin'],
  'ca-certificates',
];
// Python of the suite, and the oldest systems that the wheels support.
const target = ['--python-version', '3.11', '--only-binary', ':all:'];
const platforms = ['manylinux2014_x86_64', 'manylinux_2_28_aarch64'];
const requirements = `
py-rattler==0.28.0 \\
  --hash=sha256:4f4ab1d34d5394e7ce130a86e59009c95ace4f5757d9c3af04de1351bcea47eb \\
  --hash=sha256:61b24202374188e72130f1b3dc63b455befaafc3e49e5481a38b6a6c8828c1e0
pip==25.3 \\
  --hash=sha256:9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd
`;

export function hasConda(): boolean {
  return existsSync(condaDirectory());
}

/**
 * Downloads the parts of images with a package manager into folders: `system`, a small Debian for this machine's
 * architecture; `python`, the additional files of its Python; `rattler` and `pip`, Python packages. Python packages
 * come from the index of this machine's pip, and are checked by their hashes.
 */
export async function buildConda(mirror: string): Promise<void> {
  await makeFolder(
    {
      destination: condaDirectory(),
      isThere: hasConda,
      doing: 'Fetching a package manager for Conda',
    },
    async folder => {
      const result = join(folder, 'result');
      await unpackDebian(join(folder, 'apt'), result, mirror);
      await unpackWheels(join(folder, 'wheels'), result);
      return result;
    },
  );
}

const trustAll = `
cd "$1"
mkdir -p etc/ssl/certs
cat usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt`;

async function unpackDebian(folder: string, result: string, mirror: string): Promise<void> {
  const apt = await privateApt(folder, { mirror, suite });
  await run('apt-get', ['install', '-y', '--download-only', ...packages], apt);
  const archives = join(folder, 'cache/archives');
  for (const file of await readdir(archives)) {
    if (!file.endsWith('.deb')) continue;
    const part = join(result, /^(?:lib)?python3/.test(file) ? 'python' : 'system');
    await mkdir(part, { recursive: true });
    await run('dpkg-deb', ['-x', join(archives, file), part]);
  }
  // As the installation of the package does.
  await run('sh', ['-ec', trustAll, 'sh', join(result, 'system')]);
  for (const part of ['python', 'system']) {
    for (const name of ['doc', 'man', 'locale']) {
      await rm(join(result, part, 'usr/share', name), { recursive: true, force: true });
    }
  }
}

async function unpackWheels(folder: string, result: string): Promise<void> {
  await mkdir(folder);
  const list = join(folder, 'requirements.txt');
  await writeFile(list, requirements);
  const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
  const systems = platforms.filter(name => name.endsWith(machine));
  await run('pip3', [
    ...['download', '--no-deps', '--require-hashes', '--requirement', list, '--dest', folder],
    ...[...target, ...systems.flatMap(name => ['--platform', name])],
  ]);
  for (const file of await readdir(folder)) {
    if (!file.endsWith('.whl')) continue;
    const part = join(result, file.startsWith('pip-') ? 'pip' : 'rattler');
    await run('python3', ['-m', 'zipfile', '-e', join(folder, file), part]);
  }
}
