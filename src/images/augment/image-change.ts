import type { Digest } from '../../oci/digest.ts';

/** A layer to add: a gzip-compressed tar whose digests and size were verified. */
export interface InjectedLayer {
  /** Digest of the gzip file: what a client asks for as a blob. */
  readonly gzipDigest: Digest;
  /** Bytes of the gzip file. */
  readonly gzipSize: number;
  /** Digest of the tar file inside: the layer's diff ID. */
  readonly tarDigest: Digest;
  /** When set, only images of this architecture get the layer. */
  readonly architecture?: string;
}

/** What a container request wants changed in an image. An absent member changes nothing. */
export interface ImageChange {
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  /** `NAME=value` each. */
  readonly env?: readonly string[];
  readonly workingDir?: string;
  readonly layers?: readonly InjectedLayer[];
  /** The change that is made first, where an image is changed that was changed before. */
  readonly onTopOf?: ImageChange;
}

/** The changes that are made one after another, the first one first. */
export function changesIn({ onTopOf, ...change }: ImageChange): readonly ImageChange[] {
  return [...(onTopOf ? changesIn(onTopOf) : []), change];
}

/** The layers of all changes. */
export function layersIn(change: ImageChange): readonly InjectedLayer[] {
  return changesIn(change).flatMap(({ layers }) => layers ?? []);
}

/** True when serving the image means serving it as it is. */
export function isUnchanged(change: ImageChange): boolean {
  return changesIn(change).every(isEmpty);
}

function isEmpty(change: ImageChange): boolean {
  return (
    change.entrypoint === undefined &&
    change.cmd === undefined &&
    change.workingDir === undefined &&
    (change.env?.length ?? 0) === 0 &&
    (change.layers?.length ?? 0) === 0
  );
}
