import { baseLayer, noteLayer } from './base.ts';
import { contentOf, describe, jsonContent, mediaTypes } from './content.ts';
import { amd64, arm64, type Family, type Image, imageOf, indexOf, type Member } from './image.ts';

/** Indexes with the provenance that BuildKit adds, and with children that are missing or nested. */
export const attest: Family = {
  latest: async () => {
    const images = await platforms();
    return indexOf([...images.members, attestation(images.amd), attestation(images.arm)]);
  },
  attfirst: async () => {
    const images = await platforms();
    return indexOf([attestation(images.amd), attestation(images.arm), ...images.members]);
  },
  /** Only the manifests of amd64 are there. */
  sparse: async () => {
    // Separate images: the other tags would lose theirs together with these.
    const images = await platforms('sparse');
    const missing = attestation(images.arm);
    const index = indexOf([...images.members, attestation(images.amd), missing]);
    return { ...index, gone: [images.arm.root, missing.image.root] };
  },
  /** An index that leads to the images over another index. */
  nested: async () => indexOf([{ image: indexOf((await platforms()).members) }]),
};

async function platforms(note?: string) {
  const imageFor = async (architecture: 'amd64' | 'arm64') => {
    const notes = note === undefined ? [] : [await noteLayer(note)];
    return imageOf({ architecture, layers: [await baseLayer(architecture), ...notes] });
  };
  const [amd, arm] = [await imageFor('amd64'), await imageFor('arm64')];
  return { amd, arm, members: [amd64(amd), arm64(arm)] };
}

/** Source: BuildKit, docs/attestations/attestation-storage.md. */
function attestation(subject: Image): Member {
  const statement = contentOf(
    'application/vnd.in-toto+json',
    JSON.stringify({
      _type: 'https://in-toto.io/Statement/v0.1',
      predicateType: 'https://slsa.dev/provenance/v0.2',
      subject: [{ name: 'image', digest: { sha256: subject.root.digest.slice(7) } }],
      predicate: { buildType: 'https://mobyproject.org/buildkit@v1' },
    }),
  );
  const config = jsonContent(mediaTypes.ociConfig, {
    architecture: 'unknown',
    os: 'unknown',
    config: {},
    rootfs: { type: 'layers', diff_ids: [statement.digest] },
  });
  const root = jsonContent(mediaTypes.ociManifest, {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: describe(config),
    layers: [
      describe(statement, {
        annotations: { 'in-toto.io/predicate-type': 'https://slsa.dev/provenance/v0.2' },
      }),
    ],
  });
  const annotations = {
    'vnd.docker.reference.digest': subject.root.digest,
    'vnd.docker.reference.type': 'attestation-manifest',
  };
  const platform = { architecture: 'unknown', os: 'unknown' };
  return {
    image: { root, children: [], blobs: [config, statement] },
    more: { annotations, platform },
  };
}
