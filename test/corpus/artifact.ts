import { type Content, contentOf, describe, jsonContent, mediaTypes, sha256 } from './content.ts';
import type { Family, Image } from './image.ts';
import { platformImage } from './multi.ts';

const empty = contentOf(mediaTypes.ociEmpty, '{}');
const note = contentOf('text/plain', 'an artifact\n');

/** Artifacts that are not container images. */
export const artifact: Family = {
  /** The shape of OCI 1.1: its own type and the empty configuration. */
  oras11: async () => artifactOf(empty, note, { artifactType: 'application/vnd.example.note' }),
  /** The shape that Singularity pushes. */
  sif: async () =>
    artifactOf(
      contentOf('application/vnd.sylabs.sif.config.v1+json', '{}'),
      contentOf('application/vnd.sylabs.sif.layer.v1.sif', '#!/usr/bin/env run-singularity\n'),
    ),
  /** The shape of a Helm chart. */
  helm: async () =>
    artifactOf(
      contentOf('application/vnd.cncf.helm.config.v1+json', '{"name":"note","version":"1.0.0"}'),
      contentOf('application/vnd.cncf.helm.chart.content.v1.tar+gzip', 'a chart\n'),
    ),
  /** The shape of a directory that oras pushes: its one layer has the type of a layer of an image. */
  directory: async () =>
    artifactOf(
      contentOf('application/vnd.unknown.config.v1+json', '{}'),
      contentOf(`${mediaTypes.ociLayer}+gzip`, 'a directory\n'),
    ),
  /** The shape of a plugin of the Docker engine: its config has a root file system. */
  plugin: async () => {
    const config = { rootfs: { type: 'layers', diff_ids: [sha256('a plugin\n')] } };
    return artifactOf(
      jsonContent('application/vnd.docker.plugin.v1+json', config),
      contentOf(mediaTypes.dockerLayer, 'a plugin\n'),
    );
  },
  /** An image to which another artifact refers; the index of referrers lies under a tag. */
  subject: async () => {
    const subject = await platformImage('amd64');
    const referrer = await referrerOf(subject);
    const index = jsonContent(mediaTypes.ociIndex, {
      schemaVersion: 2,
      mediaType: mediaTypes.ociIndex,
      manifests: [describe(referrer.root, { artifactType: 'application/vnd.example.note' })],
    });
    return {
      ...subject,
      children: [referrer.root],
      blobs: [...subject.blobs, ...referrer.blobs],
      tags: { [subject.root.digest.replace(':', '-')]: index },
    };
  },
  referrer: async () => referrerOf(await platformImage('amd64')),
};

function referrerOf(subject: Image): Image {
  const artifactType = 'application/vnd.example.note';
  const image = artifactOf(empty, note, { artifactType, subject: describe(subject.root) });
  return { ...image, children: [subject.root], blobs: [...subject.blobs, ...image.blobs] };
}

function artifactOf(config: Content, layer: Content, more: object = {}): Image {
  const root = jsonContent(mediaTypes.ociManifest, {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: describe(config),
    layers: [describe(layer, { annotations: { 'org.opencontainers.image.title': 'note.txt' } })],
    ...more,
  });
  return { root, children: [], blobs: [config, layer] };
}
