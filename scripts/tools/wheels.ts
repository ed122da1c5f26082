import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { wheelsDirectory } from '../../test/world/tools.ts';
import { makeFolder } from './make-folder.ts';
import { run } from './run.ts';

// Of the shapes that wheels have, small ones: namespaces, names with dots, `.data` with scripts, headers and data, programs, abi3.
// Two digests: of x86-64 and of arm64.
const requirements = `
backports.tarfile==1.2.0 --hash=sha256:77e284d754527b01fb1e6fa8a1afe577858ebe4e9dad8919e34c862cb399bc34
bcrypt==5.0.0 --hash=sha256:f8429e1c410b4073944f03bd778a9e066e7fad723564a52ff91841d278dfc822 --hash=sha256:f0ce778135f60799d89c9693b9b398819d15f1921ba15fe719acb3178215a7db
ipykernel==7.4.0 --hash=sha256:a6757f790ddc5a6006b813d82da1a9dbb65b3a00f2b6607df776418c6566ec1c
jaraco.text==4.3.0 --hash=sha256:07a06a9eaf8b7eee54f2fec816565ef1eec5aa78fc81e4f1c3131ad09ff45a9a
Jinja2==3.1.6 --hash=sha256:85ece4451f492d0c13c5dd7c13a64681a86afae63a5f347908daf103ce6d2f67
jmespath==1.1.0 --hash=sha256:a5663118de4908c91729bea0acadca56526eb2698e83de10cd116ae0f4e97c64
ninja==1.13.2 --hash=sha256:65a24341b5ac09fcadcc37082660be40a94174e51a937fabf6e2cae26225fa2c --hash=sha256:d775a5e43e9088f507a6250d57fcf5678eb31268c545feb5064ffeee33735622
pip==26.3 --hash=sha256:f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13
protobuf==7.36.2 --hash=sha256:89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2 --hash=sha256:e11e1f0180583a2af89db6a2ecd9e8dc40aa6d2988ca175bfd0e6d12ea72d74e
pybind11-global==3.1.0 --hash=sha256:ae4ce119e9f0d7a2ef2372a6bd70d7906073a67a7d7c759023601a629c4bbd36
RSeQC==5.0.6 --hash=sha256:b88ff92dece63619a86522710b633fb6f957bf2420d91a7e42b72e7f980ce461
zope.event==6.2 --hash=sha256:5e755153ac4faf64c10a4b6dd3307680166a3edf65b38df22df592610f8fa874
`;

export function hasWheels(): boolean {
  return existsSync(wheelsDirectory());
}

/** Downloads wheels for this machine from the index of its pip, and checks their digests. */
export async function fetchWheels(): Promise<void> {
  await makeFolder(
    { destination: wheelsDirectory(), isThere: hasWheels, doing: 'Fetching Python wheels' },
    async folder => {
      const result = join(folder, 'result');
      await mkdir(result, { recursive: true });
      const list = join(folder, 'requirements.txt');
      await writeFile(list, requirements);
      const machine = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
      const platforms = ['manylinux2014', 'manylinux_2_17', 'manylinux_2_28'];
      await run('pip3', [
        ...['download', '--no-deps', '--require-hashes', '--requirement', list, '--dest', result],
        // They fit every Python since.
        ...['--python-version', '3.11', '--only-binary', ':all:'],
        ...platforms.flatMap(name => ['--platform', `${name}_${machine}`]),
      ]);
      return result;
    },
  );
}
