import { startCondaChannels } from '../test/world/conda-channels.ts';
import { program } from '../test/world/conda-programs.ts';
import { pushDebianImage } from '../test/world/debian-image.ts';
import { startRegistry } from '../test/world/registry.ts';
import { type Sluice, startSluice } from '../test/world/sluice.ts';

/** What the pictures and the recording in the documentation say of packages. */
export const summaries = {
  samtools: 'Tools for dealing with SAM, BAM and CRAM files',
  bwa: 'The BWA read mapper.',
};
const newest = { samtools: '1.21', bwa: '0.7.18' };

/** A running server, with everything that it requires. */
export interface ShownServer extends AsyncDisposable {
  readonly sluice: Sluice;
}

/**
 * Starts a real server with a real registry and real Conda packages that are made here: the pictures and the recording in the
 * documentation look the same on every machine.
 *
 * @param port default: chosen by the system
 */
export async function startShownServer(config: object, port?: number): Promise<ShownServer> {
  await using parts = new AsyncDisposableStack();
  const registry = parts.use(await startRegistry());
  await pushDebianImage(registry, 'library/ubuntu', '24.04');
  const libraries = [
    'zlib 1.3.1',
    'libdeflate 1.22',
    'htslib 1.21',
    'ncurses 6.5',
    'libcurl 8.11.1',
  ];
  const channels = parts.use(
    await startCondaChannels({
      'conda-forge': [
        program('procps-ng', '4.0.4'),
        ...libraries.map(text => {
          const [name = '', version = ''] = text.split(' ');
          return program(name, version);
        }),
      ],
      bioconda: [
        program('samtools', '1.20', { depends: ['htslib', 'ncurses', 'zlib'] }),
        program('samtools', '1.21', { depends: ['htslib', 'ncurses', 'zlib', 'libdeflate'] }),
        program('bwa', '0.7.18', { depends: ['zlib'] }),
      ],
    }),
  );
  const described = Object.entries(summaries).map(([name, summary]) => [
    name,
    { summary, version: newest[name as keyof typeof newest] },
  ]);
  channels.files.set(
    '/bioconda/channeldata.json',
    Buffer.from(JSON.stringify({ packages: Object.fromEntries(described) })),
  );
  const sluice = parts.use(
    await startSluice({
      ...(port === undefined ? {} : { port }),
      config: {
        builds: { conda: 'native' },
        registries: {
          'docker.io': { mirrors: [registry.host] },
          [registry.host]: { plainHttp: true },
        },
        channels: channels.settings,
        ...config,
      },
    }),
  );
  const owned = parts.move();
  return { sluice, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
