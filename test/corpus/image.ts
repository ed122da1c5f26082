import { type Content, contentOf, describe, jsonContent, mediaTypes } from './content.ts';
import { type Layer, retyped } from './layer.ts';

/** A manifest or index with all that it refers to. */
export interface Image {
  readonly root: Content;
  /** Manifests below the root, each after those that it refers to. */
  readonly children: readonly Content[];
  readonly blobs: readonly Content[];
  /** Tags beside the one that the root gets. */
  readonly tags?: Readonly<Record<string, Content>>;
  /** Manifests and blobs taken away again after the push: docker-registry refuses gaps. */
  readonly gone?: readonly Content[];
}

/** The images of one repository by tag. */
export type Family = Readonly<Record<string, () => Promise<Image>>>;

export type Kind = 'docker' | 'oci';

export interface ImageOptions {
  readonly kind?: Kind;
  readonly architecture?: string;
  readonly layers: readonly Layer[];
  /** Replaces the `config` member of the configuration. */
  readonly run?: object;
  /** Rewrites the whole configuration before it is written. */
  readonly config?: (usual: Record<string, unknown>) => object | string;
  /** Rewrites the whole manifest before it is written. */
  readonly manifest?: (usual: Record<string, unknown>) => object | string;
}

export const created = '2024-02-29T12:00:00Z';
export const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** An image of one platform. */
export function imageOf(options: ImageOptions): Image {
  const { kind = 'oci', architecture = 'amd64' } = options;
  const isDocker = kind === 'docker';
  const layers = options.layers.map(layer =>
    isDocker ? retyped(layer, mediaTypes.dockerLayer) : layer,
  );
  const usualConfig = {
    created,
    architecture,
    os: 'linux',
    config: options.run ?? { Env: [path], Cmd: ['/bin/sh'] },
    rootfs: { type: 'layers', diff_ids: layers.map(layer => layer.diffId) },
    history: layers.map((_, at) => ({ created, created_by: `COPY layer-${at} /` })),
  };
  const configType = isDocker ? mediaTypes.dockerConfig : mediaTypes.ociConfig;
  const config = written(configType, usualConfig, options.config);
  const manifestType = isDocker ? mediaTypes.dockerManifest : mediaTypes.ociManifest;
  const usualManifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: describe(config),
    layers: layers.map(layer => describe(layer.content)),
  };
  return {
    root: written(manifestType, usualManifest, options.manifest),
    children: [],
    blobs: [config, ...layers.map(layer => layer.content)],
  };
}

/** An entry of an index: an image and the other members of its descriptor, usually `platform`. */
export interface Member {
  readonly image: Image;
  readonly more?: object;
}

/** An image index or, of the kind `docker`, a manifest list. */
export function indexOf(
  members: readonly Member[],
  options: { kind?: Kind; rewrite?: (usual: Record<string, unknown>) => object | string } = {},
): Image {
  const mediaType = options.kind === 'docker' ? mediaTypes.dockerList : mediaTypes.ociIndex;
  const usual = {
    schemaVersion: 2,
    mediaType,
    manifests: members.map(({ image, more }) => describe(image.root, more)),
  };
  return {
    root: written(mediaType, usual, options.rewrite),
    children: members.flatMap(({ image }) => [...image.children, image.root]),
    blobs: members.flatMap(({ image }) => image.blobs),
  };
}

export function amd64(image: Image): Member {
  return { image, more: { platform: { architecture: 'amd64', os: 'linux' } } };
}

export function arm64(image: Image): Member {
  return { image, more: { platform: { architecture: 'arm64', os: 'linux', variant: 'v8' } } };
}

/** For `rewrite` and its like: leaves a member out. */
export function without(name: string): (usual: Record<string, unknown>) => object {
  return usual => Object.fromEntries(Object.entries(usual).filter(([member]) => member !== name));
}

function written(
  mediaType: string,
  usual: Record<string, unknown>,
  rewrite: ((usual: Record<string, unknown>) => object | string) | undefined,
): Content {
  const value = rewrite === undefined ? usual : rewrite(usual);
  return typeof value === 'string' ? contentOf(mediaType, value) : jsonContent(mediaType, value);
}
