/** The environment variables of images that are made without a builder. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NativeOrigin } from '../../src/builds/solve/conda/find-solution.ts';
import { createMakeCondaImage } from '../../src/builds/solve/conda/make-conda-image.ts';
import { augment } from '../../src/images/augment/augment.ts';
import { environmentIn } from '../../src/images/augment/image-config.ts';
import type { Descriptor } from '../../src/oci/descriptor.ts';
import type { Digest } from '../../src/oci/digest.ts';
import { type Document, documentOf, parseManifest } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';

/** The image of a platform: what its packages set, and the environment of its base image. */
interface Platform {
  readonly variables?: Readonly<Record<string, string>>;
  readonly env?: readonly string[];
}

function jsonOf(value: object, mediaType: string): Document {
  return documentOf(Buffer.from(JSON.stringify(value)), mediaType);
}

function descriptorOf({ mediaType, digest, bytes }: Document) {
  return { mediaType, digest, size: bytes.length };
}

/** Returns the environments of the images that are made for amd64 and arm64. */
async function environments(wanted: readonly string[], of: readonly Platform[]) {
  const documents = new Map<Digest, Document>();
  const known = (document: Document) => {
    documents.set(document.digest, document);
    return document;
  };
  const platforms = of.map((one, at) => ({
    ...one,
    platform: { os: 'linux', architecture: ['amd64', 'arm64'][at] ?? '' },
  }));
  const images = platforms.map(({ platform, env = ['PATH=/base/bin'] }) => {
    const config = known(jsonOf({ ...platform, config: { Env: env } }, mediaTypes.ociConfig));
    const manifest = { schemaVersion: 2, config: descriptorOf(config), layers: [] };
    return known(jsonOf(manifest, mediaTypes.ociManifest));
  });
  const manifests = images.map(descriptorOf);
  const root = jsonOf({ schemaVersion: 2, manifests }, mediaTypes.ociIndex);
  let at = 0;
  const make = createMakeCondaImage({
    findSolution: async () => ({
      source: {} as never,
      base: { root, images },
      platforms: platforms.map(({ platform }) => ({
        ...{ platform, subdir: `linux-${platform.architecture}`, packages: [] },
        ...{ wheels: [], isReplaced: false },
      })),
    }),
    reformLayers: async layers => layers,
    layers: {
      async make() {
        at += 1;
        return { layers: [], packages: [], wheels: [], variables: of[at - 1]?.variables ?? {} };
      },
    } as never,
    documents: {
      config: async (_access: unknown, { digest }: Descriptor) => documents.get(digest),
    } as never,
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
      isTrusted: true,
    },
    {} as never,
    { native } as unknown as NativeOrigin,
  );
  const made = augment(root, documents, change);
  const index = parseManifest(made.root);
  assert.ok(index.kind === 'index');
  return index.manifests.map(({ digest }) => {
    const manifest = parseManifest(made.generated.get(digest) ?? assert.fail(digest));
    assert.ok(manifest.kind === 'manifest');
    const config = made.generated.get(manifest.config.digest) ?? assert.fail();
    return Object.fromEntries(environmentIn(config.bytes));
  });
}

const common = { CONDA_PREFIX: '/opt/conda', PATH: '/opt/conda/bin:/base/bin' };

test('the environment comes before the PATH of the base image', async () => {
  const variables = { C: 'd' };
  const image = { ...common, A: 'b', C: 'd' };
  assert.deepEqual(await environments(['A=b'], [{ variables }]), [image]);
  assert.deepEqual(await environments(['A=b'], [{ variables }, { variables }]), [image, image]);
});

test('a PATH of the environment file or of a package replaces that of the base image', async () => {
  const pathOf = async (wanted: readonly string[], variables = {}) =>
    (await environments(wanted, [{ variables }]))[0]?.PATH;
  assert.equal(await pathOf(['PATH=/tools:/bin']), '/opt/conda/bin:/tools:/bin');
  assert.equal(await pathOf([], { PATH: '/package' }), '/opt/conda/bin:/package');
  assert.equal(await pathOf(['PATH=/file'], { PATH: '/package' }), '/opt/conda/bin:/file');
});

test('the image of each platform has the variables of its own packages and base image', async () => {
  const both = await environments(
    ['A=b'],
    [
      { variables: { HOST: 'x86', ONLY: 'here' } },
      { variables: { HOST: 'arm' }, env: ['PATH=/arm', 'OWN=1'] },
    ],
  );
  assert.deepEqual(both, [
    { ...common, A: 'b', HOST: 'x86', ONLY: 'here' },
    { ...common, A: 'b', HOST: 'arm', OWN: '1', PATH: '/opt/conda/bin:/arm' },
  ]);
});
