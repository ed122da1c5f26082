import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, connect, directoryTree, memoryTree } from '../../src/buildkit/index.ts';
import { requireConda } from './tools.ts';

export interface CondaImages {
  /** A small Debian without Python, to put environments into. */
  readonly base: string;
  /** The same with a package manager that answers to `micromamba`. */
  readonly manager: string;
}

export interface CondaImageOptions {
  /** Base address of channels without their own address. */
  readonly channelAlias: string;
  /** Address of the index for pip. */
  readonly pipIndex: string;
}

const commandLine = fileURLToPath(new URL('micromamba.py', import.meta.url));
const searchPath = '/usr/local/bin:/usr/bin:/bin';

/**
 * Makes the images and pushes them to the registry. Solver, downloader and installer of the package manager
 * are real, the command line before them is this project's: see `micromamba.py`.
 */
export async function pushCondaImages(
  builder: string,
  registry: string,
  { channelAlias, pipIndex }: CondaImageOptions,
): Promise<CondaImages> {
  const folder = requireConda();
  const images = { base: `${registry}/debian:12-slim`, manager: `${registry}/micromamba:1` };
  const client = connect(builder);
  const push = (name: string) => ({ type: 'image', name, push: true }) as const;
  try {
    await build(client, {
      dockerfile: `FROM scratch\nCOPY . /\nENV PATH=${searchPath}\nCMD ["sh"]\n`,
      context: directoryTree(join(folder, 'system')),
      exporters: [{ ...push(images.base), compression: 'uncompressed' }],
    });
    await build(client, {
      dockerfile: [
        `FROM ${images.base}`,
        'COPY --from=python . /',
        'COPY --from=rattler . /usr/lib/python3/dist-packages/',
        'COPY micromamba /usr/bin/',
        // Keeps what Python compiles: each step of a build would compile it again.
        'RUN MAMBA_ROOT_PREFIX=/tmp micromamba --help > /dev/null',
        `ENV MAMBA_CHANNEL_ALIAS=${channelAlias} PIP_INDEX_URL=${pipIndex}`,
        '',
      ].join('\n'),
      context: memoryTree({ micromamba: { data: await readFile(commandLine), mode: 0o755 } }),
      namedContexts: {
        python: directoryTree(join(folder, 'python')),
        rattler: directoryTree(join(folder, 'rattler')),
      },
      exporters: [{ ...push(images.manager), compression: 'uncompressed' }],
    });
  } finally {
    client.close();
  }
  return images;
}
