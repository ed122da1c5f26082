import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { condaReadersDirectory } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { run } from './run.ts';

// Pure Python, for any version since 3.10. Of conda-lock, only the models of its file and their dependencies are used.
const target = [
  ...['--python-version', '3.11', '--only-binary', ':all:', '--platform', 'any'],
  ...['--implementation', 'py', '--abi', 'none'],
];
const requirements = `
beartype==0.23.1 --hash=sha256:4461b4dc57e3fdd6c8a8464b22cf118002eea107c33e9fef651c69068ab3cce3
boolean.py==5.0 --hash=sha256:ef28a70bd43115208441b53a045d1549e2f0ec6e3d08a9d142cbc41c1938e8d9
conda-lock==2.5.8 --hash=sha256:7169bee21a79eccf1b41628894acf603d6cc4f70215b92ee494d1751710e80d5
license-expression==30.4.4 --hash=sha256:421788fdcadb41f049d2dc934ce666626265aeccefddd25e162a26f23bcbf8a4
pydantic==1.10.27 --hash=sha256:d714c3df0db634a6720abdc204d7b3bfc6c62d4ef7b4f9dcd64b37c29187a058
ruamel.yaml==0.19.1 --hash=sha256:27592957fedf6e0b62f281e96effd28043345e0e66001f97683aa9a40c667c93
spdx-tools==0.8.5 --hash=sha256:7c2d5865941be9d2e898f5b084e8d5422dd298dc5a29320ddb198fec304f59c4
typing_extensions==4.16.0 --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8
uritools==6.1.4 --hash=sha256:7e48617975c3ccd3ee11da4641af8f8c9b97dcd7e75969a4cdfd7c8ce177f4e3
`;

export function hasCondaReaders(): boolean {
  return existsSync(condaReadersDirectory());
}

/** Installs Python packages that read conda-lock files and SPDX documents. Checks their hashes. */
export async function buildCondaReaders(): Promise<void> {
  await makeFolder(
    {
      destination: condaReadersDirectory(),
      isThere: hasCondaReaders,
      doing: 'Fetching readers of lock files',
    },
    async folder => {
      const wheels = join(folder, 'wheels');
      await mkdir(wheels, { recursive: true });
      const list = join(folder, 'requirements.txt');
      await writeFile(list, requirements);
      const safely = ['--no-deps', '--require-hashes', '--requirement', list, '--dest', wheels];
      await run('pip3', ['download', ...safely, ...target]);
      const result = join(folder, 'result');
      for (const file of await readdir(wheels)) {
        await run('python3', ['-m', 'zipfile', '-e', join(wheels, file), result]);
      }
      return result;
    },
  );
}
