import type { Digest } from '../../oci/digest.ts';
import { type ContainerConfig, changesConfig } from './container-config.ts';

/** A layer to add: a gzip-compressed tar whose digests and size were verified. */
export interface InjectedLayer {
  /** Digest of the gzip file, by which a client requests the blob. */
  readonly gzipDigest: Digest;
  /** Bytes of the gzip file. */
  readonly gzipSize: number;
  /** Digest of the tar file inside: the layer's diff ID. */
  readonly tarDigest: Digest;
  /** When set, only images of this architecture get the layer. */
  readonly architecture?: string;
}

/** Changes to a config, and layers to add: either as a client describes them, or verified. */
export interface LayeredConfig<Layer> extends ContainerConfig {
  readonly layers?: readonly Layer[] | undefined;
}

/** Changes that a container request makes to an image. */
export interface ImageChange extends LayeredConfig<InjectedLayer> {
  /** The change to make first, when the image was changed before. */
  readonly onTopOf?: ImageChange;
  /** When set, only images of this architecture get the change. */
  readonly architecture?: string;
  /** Name of the base, for the annotations of the changed image. Requests of earlier versions have none. */
  readonly baseName?: string;
}

/** Returns the change with the name of the base that it is made to, unless it is made to a changed image. */
export function ofBase(change: ImageChange, baseName: string): ImageChange {
  return isUnchanged(change) || change.onTopOf ? change : { ...change, baseName };
}

/** Returns the changes in the order in which they apply. */
export function changesIn({ onTopOf, ...change }: ImageChange): readonly ImageChange[] {
  return [...(onTopOf ? changesIn(onTopOf) : []), change];
}

/** Returns the layers of all changes. */
export function layersIn(change: ImageChange): readonly InjectedLayer[] {
  return changesIn(change).flatMap(({ layers }) => layers ?? []);
}

/** True when the image is served unchanged. */
export function isUnchanged(change: ImageChange): boolean {
  return changesIn(change).every(
    one => !changesConfig(one) && (one.layers === undefined || one.layers.length === 0),
  );
}
