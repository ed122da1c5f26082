import { digestOf } from '../../src/oci/digest.ts';
import { type Descriptor, mediaTypes } from '../corpus/content.ts';
import { pattern } from '../faults/scripted-upstream.ts';
import {
  type DataSet,
  type Draft,
  type DraftOptions,
  draftDataSet,
  type ImageOptions,
  linux,
  type ManifestOptions,
} from './data-set.ts';

/** One kind of content that a registry must store and serve unchanged. */
interface Recipe {
  readonly name: string;
  readonly options?: DraftOptions;
  make(draft: Draft): unknown;
}

export const exampleTypes = {
  one: 'application/vnd.example.conformance.one',
  two: 'application/vnd.example.conformance.two',
} as const;

const architectures = ['amd64', 'arm64'];
const nothingPushed = digestOf('content that nobody pushes');

const recipes: readonly Recipe[] = [
  { name: 'image', make: draft => draft.image({ tags: ['image'] }) },
  {
    name: 'uncompressed layers',
    make: async draft => draft.image({ tags: ['plain'], layers: [await draft.layer('none')] }),
  },
  // Registries must take 4 MiB at least; this is a little less.
  {
    name: 'large manifest',
    make: draft => draft.image({ tags: ['large'], members: { annotations: manyAnnotations() } }),
  },
  { name: 'index', make: draft => indexOfImages(draft, { tags: ['index'] }) },
  {
    name: 'nested index',
    make: async draft =>
      draft.index([await indexOfImages(draft), await indexOfImages(draft)], { tags: ['nested'] }),
  },
  { name: 'empty index', make: draft => draft.index([], { tags: ['empty-index'] }) },
  { name: 'artifact', make: draft => artifact(draft, { tags: ['artifact'] }) },
  {
    name: 'artifact index',
    make: async draft =>
      draft.index([await artifact(draft), await artifact(draft)], {
        tags: ['artifact-index'],
        members: { artifactType: exampleTypes.one },
      }),
  },
  {
    name: 'artifact without layers',
    make: draft => artifact(draft, { tags: ['bare-artifact'], layers: [emptyOf(draft)] }),
  },
  { name: 'artifacts with subject', make: artifactsWithSubject },
  { name: 'index with subject', make: indexWithSubject },
  {
    name: 'missing subject',
    make: draft =>
      artifact(draft, {
        tags: ['orphan'],
        members: {
          subject: { mediaType: mediaTypes.ociManifest, digest: nothingPushed, size: 123 },
          annotations: note('orphan'),
        },
      }),
  },
  {
    name: 'content inside descriptors',
    options: { inlineData: true },
    make: draft => draft.image({ tags: ['inline'] }),
  },
  {
    name: 'layers that may not be distributed',
    make: async draft =>
      draft.image({
        tags: ['foreign'],
        layers: [foreignLayer('.v1.tar+gzip'), foreignLayer('.v1.tar'), await draft.layer()],
      }),
  },
  { name: 'unknown fields', make: unknownFields },
  { name: 'no layers', make: draft => draft.image({ tags: ['no-layers'], layers: [] }) },
  {
    name: 'manifest without a mediaType',
    make: draft => draft.image({ tags: ['untyped'], members: { mediaType: undefined } }),
  },
  // A tag alone means sha256, so these are pushed by digest.
  { name: 'sha512', options: { algorithm: 'sha512' }, make: draft => indexOfImages(draft) },
  {
    name: 'tags in the query, sha256',
    options: { tagsInQuery: true },
    make: draft => indexOfImages(draft, { tags: ['query-1', 'query-2'] }, 'query'),
  },
  {
    name: 'tags in the query, sha512',
    options: { tagsInQuery: true, algorithm: 'sha512' },
    make: draft => indexOfImages(draft, { tags: ['query512-1', 'query512-2'] }, 'query512'),
  },
  {
    name: 'Docker image',
    options: { family: 'docker' },
    make: draft => draft.image({ tags: ['docker'] }),
  },
  {
    name: 'Docker manifest list',
    options: { family: 'docker' },
    make: draft => indexOfImages(draft, { tags: ['docker-list'] }),
  },
];

/** Made once: the tests of each file push them into their own repositories. */
export const dataSets: readonly DataSet[] = await Promise.all(recipes.map(makeDataSet));

/** Throws if the data set does not exist. */
export function dataSet(name: string): DataSet {
  const found = dataSets.find(set => set.name === name);
  if (!found) throw new Error(`The data set '${name}' does not exist`);
  return found;
}

async function makeDataSet({ name, options, make }: Recipe): Promise<DataSet> {
  const draft = draftDataSet(name, options);
  await make(draft);
  return draft.dataSet;
}

/** With a prefix, each image has its own tag: `<prefix>-amd64`. */
async function indexOfImages(draft: Draft, options?: ManifestOptions, tagPrefix?: string) {
  const images: Descriptor[] = [];
  for (const architecture of architectures) {
    const tags = tagPrefix === undefined ? [] : [`${tagPrefix}-${architecture}`];
    images.push(await draft.image({ platform: linux(architecture), tags }));
  }
  return draft.index(images, options);
}

function emptyOf(draft: Draft): Descriptor {
  return draft.blob(mediaTypes.ociEmpty, '{}');
}

async function artifact(
  draft: Draft,
  { members, layers, tags = [] }: ImageOptions = {},
  artifactType: string = exampleTypes.one,
): Promise<Descriptor> {
  const count = draft.dataSet.manifests.length;
  const content = () => pattern(2048, `${draft.dataSet.name} ${count}`);
  return draft.image({
    config: emptyOf(draft),
    layers: layers ?? [draft.blob(artifactType, content())],
    members: { artifactType, ...members },
    tags,
  });
}

async function artifactsWithSubject(draft: Draft): Promise<void> {
  const { platform: _, ...subject } = await draft.image({ tags: ['subject'] });
  await draft.image({ members: { subject } });
  for (const [name, type] of Object.entries(exampleTypes)) {
    const members = { subject, annotations: note(name) };
    await artifact(draft, { tags: [`artifact-${name}`], members }, type);
  }
}

async function indexWithSubject(draft: Draft): Promise<void> {
  const subject = await indexOfImages(draft, { tags: ['subject-index'] });
  const members = { subject, annotations: note('part') };
  const parts = [await artifact(draft, { members }), await artifact(draft, { members })];
  draft.index(parts, {
    tags: ['artifact-index-with-subject'],
    members: { subject, artifactType: exampleTypes.one, annotations: note('index') },
  });
  draft.index(parts, { tags: ['untyped-index-with-subject'], members: { subject } });
}

async function unknownFields(draft: Draft): Promise<void> {
  const custom = { 'org.example.custom': { deep: [1, null, 'x'] } };
  const config = { os: 'linux', architecture: 'amd64', rootfs: { type: 'layers', diff_ids: [] } };
  const image = await draft.image({
    config: draft.blob(mediaTypes.ociConfig, JSON.stringify({ ...config, ...custom })),
    layers: [{ ...(await draft.layer()), ...custom }],
    members: custom,
  });
  draft.index([{ ...image, ...custom }], { tags: ['custom'], members: custom });
}

function foreignLayer(suffix: string): Descriptor {
  const digest = digestOf(`a foreign layer${suffix}`);
  return {
    mediaType: `application/vnd.oci.image.layer.nondistributable${suffix}`,
    digest,
    size: 123_456,
    urls: [`https://store.example.com/blobs/${digest}`],
  };
}

function note(text: string): object {
  return { 'org.opencontainers.conformance': 'hello', 'org.example.note': text };
}

function manyAnnotations(): object {
  const text = 'A'.repeat(10_000);
  return Object.fromEntries(
    Array.from({ length: 390 }, (_, number) => [`org.example.large-${number}`, text]),
  );
}
