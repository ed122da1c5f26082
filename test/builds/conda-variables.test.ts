/** The environment variables of an image that is made without a builder. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NativeOrigin } from '../../src/builds/solve/conda/find-solution.ts';
import { createMakeCondaImage } from '../../src/builds/solve/conda/make-conda-image.ts';
import { digestOf } from '../../src/oci/digest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

const config = Buffer.from(JSON.stringify({ config: { Env: ['PATH=/base/bin'] } }));
const descriptor = {
  mediaType: mediaTypes.ociConfig,
  ...{ digest: digestOf(config), size: config.length },
};
const manifest = {
  schemaVersion: 2,
  mediaType: mediaTypes.ociManifest,
  config: descriptor,
  layers: [],
};
const bytes = Buffer.from(JSON.stringify(manifest));
const base = { mediaType: mediaTypes.ociManifest, digest: digestOf(bytes), bytes };

/** Returns the variables that an image gets: those of its environment file, and those of its packages. */
async function variablesOf(wanted: readonly string[], ofPackages: Record<string, string> = {}) {
  const make = createMakeCondaImage({
    findSolution: async () => ({
      source: {} as never,
      base: { root: base, images: [base] } as never,
      platforms: [
        {
          ...{ platform: { os: 'linux', architecture: 'amd64' }, subdir: 'linux-64' },
          ...{ packages: [], isReplaced: false },
        },
      ],
    }),
    layers: {
      make: async () => ({ layers: [], packages: [], variables: ofPackages }),
    } as never,
    documents: { config: async () => ({ ...descriptor, bytes: config }) } as never,
    channels: { channelsOf: () => [] },
  });
  const native = {
    wanted: { form: 'environment', packages: [], pip: [], variables: wanted },
    ...{ channels: [], options: { basePackages: [] } },
  };
  const { change } = await make(
    {
      step: async (_name, work) => work({ write() {}, progress() {} } as never),
      signal: new AbortController().signal,
    },
    {} as never,
    { native } as unknown as NativeOrigin,
  );
  return change.env;
}

const prefix = 'CONDA_PREFIX=/opt/conda';

test('the environment comes before the PATH of the base image', async () => {
  const path = 'PATH=/opt/conda/bin:/base/bin';
  assert.deepEqual(await variablesOf(['A=b'], { C: 'd' }), ['C=d', 'A=b', prefix, path]);
});

test('a PATH of the environment file or of a package replaces that of the base image', async () => {
  const last = async (...given: Parameters<typeof variablesOf>) =>
    (await variablesOf(...given))?.at(-1);
  assert.equal(await last(['PATH=/tools:/bin']), 'PATH=/opt/conda/bin:/tools:/bin');
  assert.equal(await last([], { PATH: '/package' }), 'PATH=/opt/conda/bin:/package');
  assert.equal(await last(['PATH=/file'], { PATH: '/package' }), 'PATH=/opt/conda/bin:/file');
});
