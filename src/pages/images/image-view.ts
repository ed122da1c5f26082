import { Fault } from '../../foundation/fault.ts';
import type { Descriptor } from '../../oci/descriptor.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Document } from '../../oci/document.ts';
import { parseJson } from '../../oci/json.ts';
import { type ImageManifest, isImage, manifestType, parseManifest } from '../../oci/manifest.ts';
import { bareMediaType } from '../../oci/media-type.ts';
import { formatPlatform, isAttestation } from '../../oci/platform.ts';
import type { OpenedImage, OpenInspected } from '../../request/inspect/open-inspected.ts';
import type { CredentialSource } from '../../upstream/auth/credentials.ts';
import {
  type ConfigView,
  configView,
  type HistoryStep,
  historySteps,
} from './image-config-view.ts';

/** An image that a viewer may pull, for one platform. */
export interface ChosenImage {
  readonly opened: OpenedImage;
  readonly platforms: readonly PlatformView[];
  /** Manifest of the chosen platform. */
  readonly document: Document;
  readonly manifest: ImageManifest;
}

/** What the page of an image shows. */
export interface ImageView {
  readonly platforms: readonly PlatformView[];
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

export interface PlatformView {
  /** Such as `linux/arm64/v8`. */
  readonly name: string;
  readonly isChosen: boolean;
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

const usualPlatform = 'linux/amd64';
// An index of an index of an index: no tool makes more.
const mostLevels = 4;

/**
 * Opens an image and selects a platform. Throws a `Fault` for an image that the viewer may not pull.
 *
 * @param platform such as `linux/arm64`. Default: linux/amd64, or the first one
 */
export async function chooseImage(
  openInspected: OpenInspected,
  name: string,
  platform: string | undefined,
  credentials: CredentialSource,
): Promise<ChosenImage> {
  const opened = await openInspected(name, credentials);
  let document = opened.root;
  let platforms: readonly PlatformView[] = [];
  for (let level = 0; level < mostLevels; level += 1) {
    const manifest = parseManifest(document);
    if (manifest.kind === 'manifest') return { opened, platforms, document, manifest };
    if (manifest.kind !== 'index') break;
    const offered = manifest.manifests.filter(entry => !isAttestation(entry));
    const chosen = chooseEntry(offered, platform);
    if (offered.some(entry => entry.platform)) {
      platforms = offered.map(entry => ({ name: nameOf(entry), isChosen: entry === chosen }));
    }
    document = await opened.documents.manifest(opened.access, chosen.digest, chosen.mediaType);
  }
  throw new Fault('bad-request', 'The image has a manifest of a type that Sluice cannot show', {
    phase: 'request',
  });
}

function chooseEntry(offered: readonly Descriptor[], wanted: string | undefined): Descriptor {
  const named = (name: string) => offered.find(entry => nameOf(entry) === name);
  const chosen = wanted ? named(wanted) : (named(usualPlatform) ?? offered[0]);
  if (chosen) return chosen;
  const names = offered.map(nameOf).join(', ') || 'none';
  throw new Fault('bad-request', `The image has no such platform; it has: ${names}`, {
    phase: 'request',
  });
}

function nameOf({ platform }: Descriptor): string {
  if (!platform) return 'any platform';
  const { os, architecture, variant } = platform;
  const name = formatPlatform({ os, architecture, ...(variant ? { variant } : {}) });
  const version = platform['os.version'];
  return version ? `${name} ${version}` : name;
}

/** Returns what the page of an image shows. Throws a `Fault`. */
export async function viewImage(chosen: ChosenImage): Promise<ImageView> {
  const { opened, platforms, document, manifest } = chosen;
  const layers = manifest.layers.map(({ digest, mediaType, size, annotations }, at) => ({
    ...{ number: at + 1, digest, mediaType, size },
    title: annotations?.['org.opencontainers.image.title'],
  }));
  const config = isImage(manifest)
    ? parseJson((await opened.documents.config(opened.access, manifest.config)).bytes, 'config')
    : undefined;
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
