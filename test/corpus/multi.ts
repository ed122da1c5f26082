import { baseLayer } from './base.ts';
import { amd64, arm64, type Family, imageOf, indexOf, type Kind, without } from './image.ts';

export async function platformImage(architecture: 'amd64' | 'arm64', kind: Kind = 'oci') {
  return imageOf({ kind, architecture, layers: [await baseLayer(architecture)] });
}

const both = async (kind: Kind = 'oci') => [
  amd64(await platformImage('amd64', kind)),
  arm64(await platformImage('arm64', kind)),
];

/** Images of several platforms; `/etc/arch` names the selected one. */
export const multi: Family = {
  list: async () => indexOf(await both('docker'), { kind: 'docker' }),
  index: async () => indexOf(await both()),
  'index-nomt': async () => indexOf(await both(), { rewrite: without('mediaType') }),
  'index-novariant': async () =>
    indexOf([
      amd64(await platformImage('amd64')),
      {
        image: await platformImage('arm64'),
        more: { platform: { architecture: 'arm64', os: 'linux' } },
      },
    ]),
  /** The entry does not name its platform. */
  noplatform: async () => indexOf([{ image: await platformImage('amd64') }]),
  arm64only: async () => indexOf([arm64(await platformImage('arm64'))]),
  empty: async () => indexOf([]),
};
