import fc from 'fast-check';
import type { BaseDocuments } from '../../src/images/augment/augment.ts';
import type { ImageChange, InjectedLayer } from '../../src/images/augment/image-config.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { type Document, documentOf } from '../../src/oci/manifest.ts';
import { mediaTypes } from '../../src/oci/media-type.ts';
import { jsonObjects } from '../oci/arbitraries.ts';

/** Documents that belong together; the root is separate. */
export interface Base {
  readonly root: Document;
  readonly documents: BaseDocuments;
}

/** Returns the descriptor of a document as JSON text, with more members after the usual three. */
export function describe({ mediaType, digest, bytes }: Document, more = ''): string {
  return `{"mediaType":"${mediaType}","digest":"${digest}","size":${bytes.length}${more}}`;
}

/** A document of the text. */
export function written(text: string, mediaType: string): Document {
  return documentOf(Buffer.from(text), mediaType);
}

/** A base of the root and all below it. */
export function baseOf(root: Document, ...below: readonly Document[]): Base {
  return { root, documents: new Map([root, ...below].map(one => [one.digest, one])) };
}

const layerDigests = fc.nat(1e6).map(number => digestOf(`layer ${number}`));

/** Layers to inject. */
export const injectedLayers: fc.Arbitrary<InjectedLayer> = fc.record(
  {
    gzipDigest: layerDigests,
    gzipSize: fc.nat(),
    tarDigest: layerDigests,
    architecture: fc.constantFrom('amd64', 'arm64'),
  },
  { requiredKeys: ['gzipDigest', 'gzipSize', 'tarDigest'] },
);

const words = fc.array(fc.string(), { maxLength: 3 });
const entries = fc.tuple(fc.constantFrom('A', 'B', 'PATH'), fc.string());

/** Changes of every kind, including the empty one. */
export const changes: fc.Arbitrary<ImageChange> = fc.record(
  {
    entrypoint: words,
    cmd: words,
    env: fc.array(
      entries.map(([name, value]) => `${name}=${value}`),
      { maxLength: 3 },
    ),
    workingDir: fc.string(),
    layers: fc.array(injectedLayers, { maxLength: 3 }),
  },
  { requiredKeys: [] },
);

const types = {
  oci: {
    manifest: mediaTypes.ociManifest,
    config: mediaTypes.ociConfig,
    layers: [
      mediaTypes.ociLayerGzip,
      'application/vnd.oci.image.layer.v1.tar+zstd',
      'application/vnd.oci.image.layer.nondistributable.v1.tar',
    ],
  },
  docker: {
    manifest: mediaTypes.dockerManifest,
    config: mediaTypes.dockerConfig,
    layers: [
      mediaTypes.dockerLayerGzip,
      'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip',
    ],
  },
} as const;

/** Images with unknown members at every level, in the spelling of a compact writer. */
export const images: fc.Arbitrary<Base> = fc
  .record({
    type: fc.constantFrom(types.oci, types.docker),
    namesType: fc.boolean(),
    layers: fc.array(fc.tuple(layerDigests, fc.nat(5), jsonObjects), { maxLength: 5 }),
    architecture: fc.constantFrom('amd64', 'arm64', 's390x', ''),
    runtime: fc.constantFrom(
      'null',
      '{}',
      '{"Env":null,"Entrypoint":null,"Cmd":null}',
      '{"User":"u","Env":["PATH=/bin","A=1"],"Entrypoint":["/own"],"Labels":{"l":"é"}}',
    ),
    history: fc.constantFrom('absent', 'null', '[]', 'full', 'with empty layers'),
    more: fc.tuple(jsonObjects, jsonObjects, jsonObjects),
  })
  .map(({ type, namesType, layers, architecture, runtime, history, more }) => {
    const described = layers.map((_, at) => `{"created_by":"layer ${at}"}`);
    const histories: Readonly<Record<string, string>> = {
      absent: '',
      full: `,"history":[${described.join()}]`,
      'with empty layers': `,"history":[{"empty_layer":true},${['{"empty_layer":true}', ...described].join()}]`,
    };
    const diffIds = layers.map(([digest]) => `"${digest}"`).join();
    const config = written(
      `{"architecture":"${architecture}","x":${more[0]},"config":${runtime},"rootfs":{"x":1.0,"type":"layers","diff_ids":[${diffIds}]}${histories[history] ?? `,"history":${history}`},"y":1.10}`,
      type.config,
    );
    const layerTexts = layers.map(
      ([digest, kind, extra]) =>
        `{"mediaType":"${type.layers[kind % type.layers.length]}","size":${kind},"digest":"${digest}","x":${extra}}`,
    );
    const own = namesType ? `,"mediaType":"${type.manifest}"` : '';
    const root = written(
      `{"schemaVersion":2${own},"x":${more[1]},"config":${describe(config, `,"x":${more[2]}`)},"layers":[${layerTexts.join()}],"annotations":{"a":"b"}}`,
      type.manifest,
    );
    return baseOf(root, config);
  });

const platforms: readonly string[] = [
  '',
  ',"platform":{"architecture":"amd64","os":"linux"}',
  ',"platform":{"architecture":"arm64","os":"linux","variant":"v8","x":1e400}',
];

type Member = { readonly text: string; readonly documents: BaseDocuments };

const imageMembers: fc.Arbitrary<Member> = fc
  .tuple(images, fc.constantFrom(...platforms), fc.boolean())
  .map(([{ root, documents }, platform, isThere]) => ({
    text: describe(root, `${platform},"annotations":{"a":"é"},"x":9007199254740993`),
    documents: isThere ? documents : new Map(),
  }));

/** An entry that is not an image: its document exists, and must stay unchanged. */
const otherMembers: fc.Arbitrary<Member> = fc
  .tuple(images, fc.constantFrom('attestation', 'unknown', 'type'))
  .map(([{ root, documents }, kind]) => {
    const marks: Readonly<Record<string, string>> = {
      attestation: ',"annotations":{"vnd.docker.reference.type":"attestation-manifest"}',
      unknown: ',"platform":{"architecture":"unknown","os":"unknown"}',
    };
    const mark = marks[kind];
    const text =
      mark === undefined
        ? describe({ ...root, mediaType: 'application/vnd.example+json' })
        : describe(root, mark);
    return { text, documents };
  });

/** Indexes of images, attestations, unknown entries and gaps, over one level or two. */
export const indexes: fc.Arbitrary<Base> = fc.letrec<{ index: Base; member: Member }>(tie => ({
  index: fc
    .tuple(fc.array(tie('member'), { maxLength: 4 }), jsonObjects, fc.boolean())
    .map(([members, more, twice]) => {
      const listed = twice ? [...members, ...members] : members;
      const root = written(
        `{"x":${more},"schemaVersion":2,"manifests":[${listed.map(({ text }) => text).join()}]}`,
        mediaTypes.ociIndex,
      );
      const documents = new Map<Digest, Document>([[root.digest, root]]);
      for (const member of members) {
        for (const [digest, document] of member.documents) documents.set(digest, document);
      }
      return { root, documents };
    }),
  member: fc.oneof(
    { maxDepth: 1 },
    imageMembers,
    otherMembers,
    tie('index').map(({ root, documents }) => ({ text: describe(root), documents })),
  ),
})).index;
