import { imageConfig } from '../../images/index.ts';
import type { Digest } from '../../oci/digest.ts';
import { manifestType, parseJson } from '../../oci/index.ts';
import { bareMediaType } from '../../oci/media-type.ts';
import type { ChosenImage, OfferedPlatform } from '../../request/index.ts';
import {
  type ConfigView,
  configView,
  type HistoryStep,
  historySteps,
} from './image-config-view.ts';

/** What the page of an image shows. */
export interface ImageView {
  readonly platforms: readonly OfferedPlatform[];
  readonly indexDigest: Digest | undefined;
  readonly digest: Digest;
  readonly mediaType: string;
  /** Type of an artifact; undefined for an image. */
  readonly artifactType: string | undefined;
  /** Bytes of all layers, as they are pulled. */
  readonly layerBytes: number;
  /** Undefined for an artifact. */
  readonly config: ConfigView | undefined;
  readonly history: readonly HistoryStep[];
  readonly layers: readonly LayerView[];
  readonly annotations: Readonly<Record<string, string>>;
}

export interface LayerView {
  /** Counted from 1, the lowest first. */
  readonly number: number;
  readonly digest: Digest;
  readonly mediaType: string;
  /** Bytes as they are pulled. */
  readonly size: number;
  /** Name of the file that an artifact calls this layer. */
  readonly title: string | undefined;
}

/** Returns what the page of an image shows. Throws a `Fault`. */
export async function viewImage(chosen: ChosenImage): Promise<ImageView> {
  const { opened, platforms, document, manifest } = chosen;
  const layers = manifest.layers.map(({ digest, mediaType, size, annotations }, at) => ({
    number: at + 1,
    digest,
    mediaType,
    size,
    title: annotations?.['org.opencontainers.image.title'],
  }));
  const own = await imageConfig(opened.documents, opened.access, manifest);
  const config = own && parseJson(own.bytes, 'config');
  return {
    platforms,
    indexDigest: opened.root.digest === document.digest ? undefined : opened.root.digest,
    digest: document.digest,
    mediaType: bareMediaType(manifestType(document)) ?? '',
    artifactType: config ? undefined : (manifest.artifactType ?? manifest.config.mediaType),
    layerBytes: layers.reduce((sum, { size }) => sum + size, 0),
    config: config && configView(config),
    history: config ? historySteps(config, layers.length) : [],
    layers,
    annotations: manifest.annotations ?? {},
  };
}
