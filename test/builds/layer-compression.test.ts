/** The layers of an image of packages are compressed as its request says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LayerCompression } from '../../src/builds/plan/build-plan.ts';
import { createMakeCondaImage } from '../../src/builds/solve/conda/make-conda-image.ts';
import type { InjectedLayer } from '../../src/images/augment/image-config.ts';
import type { Digest } from '../../src/oci/digest.ts';

const digest = (digit: string) => `sha256:${digit.repeat(64)}` as Digest;
const layers = ['1', '2'].map(
  (digit): InjectedLayer => ({
    ...{ gzipDigest: digest(digit), gzipSize: 100, tarDigest: digest('a') },
  }),
);

async function made(compression: LayerCompression | undefined) {
  const steps: string[] = [];
  const make = createMakeCondaImage({
    findSolution: async () =>
      ({
        base: { root: {}, images: [] },
        platforms: [{ platform: { os: 'linux', architecture: 'amd64' }, packages: [], wheels: [] }],
      }) as never,
    layers: {
      async make() {
        const contents = [{ digest: digest('1'), keys: ['key'] }];
        return { layers, contents, packages: [], wheels: [], variables: {} };
      },
    } as never,
    reformLayers: async (given, form) =>
      given.map((layer, at) => ({
        ...{ ...layer, gzipDigest: digest(`${at + 5}`) },
        annotations: { form: JSON.stringify(form) },
      })),
    documents: {} as never,
    channels: { channelsOf: () => [] },
  });
  const wanted = { form: 'environment', packages: [], pip: [], variables: [] };
  const native = { wanted, channels: [], options: { basePackages: [] } };
  const { change, solution } = await make(
    {
      step: async (name, work) => {
        steps.push(name);
        return work({ write() {}, progress() {} } as never);
      },
      signal: new AbortController().signal,
      isTrusted: true,
    },
    {} as never,
    { native, ...(compression ? { layers: compression } : {}) } as never,
  );
  const contents = solution.platforms.flatMap(platform => platform.contents ?? []);
  return { steps, contents, layers: change.layers ?? [] };
}

test('without a compression, the layers are the usual ones', async () => {
  const image = await made(undefined);
  const usual = layers.map(layer => ({ ...layer, architecture: 'amd64' }));
  assert.deepEqual(image.layers, usual);
  assert.equal(image.steps.length, 2);
});

test('layers in another form have the packages of the usual ones', async () => {
  const image = await made({ mode: 'estargz', level: 9 });
  assert.deepEqual(
    image.layers.map(({ gzipDigest }) => gzipDigest),
    [digest('5'), digest('6')],
  );
  const form = { form: '{"mode":"estargz","level":9}' };
  for (const { annotations } of image.layers) assert.deepEqual(annotations, form);
  assert.deepEqual(image.contents, [{ digest: digest('5'), keys: ['key'] }]);
  assert.equal(image.steps.at(-1), 'Compress the layers as estargz');
});
