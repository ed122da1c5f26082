import {
  type BaseLibc,
  environmentPrefix,
  type VirtualPackage,
  virtualPackages,
} from '../../../conda/index.ts';
import { type Document, parseManifest } from '../../../oci/index.ts';
import { formatPlatform, type Platform } from '../../../oci/naming.ts';
import { type Access, openWhole, type RegistryClient } from '../../../upstream/index.ts';
import { subdirOf } from '../../recipe/conda/platform-fit.ts';

/** The base image of one platform. */
export interface BaseImage {
  readonly access: Access;
  readonly document: Document;
  readonly platform: Platform;
}

export interface ImageSystemDeps {
  readonly baseLibc: BaseLibc;
  readonly registry: RegistryClient;
}

export interface ImageSystemOptions {
  /** Version of CUDA to simulate; undefined for none. */
  readonly cuda: string | undefined;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

/** What decides which packages can be in an image, and how they are put into it. */
export interface BaseSystem {
  readonly virtualPackages: readonly VirtualPackage[];
  /** True for a base image with an environment of conda at the path of that of the image. */
  readonly hasEnvironment: boolean;
}

/** Returns the system of a base image: its C library decides which packages run in it. Throws a `Fault`. */
export async function baseSystem(
  { access, document, platform }: BaseImage,
  { baseLibc, registry }: ImageSystemDeps,
  { cuda, log, signal }: ImageSystemOptions,
): Promise<BaseSystem> {
  const manifest = parseManifest(document);
  const base = {
    digest: document.digest,
    name: `${access.registry}/${access.repository}`,
    layers: manifest.kind === 'manifest' ? manifest.layers : [],
    openLayer: (layer: Parameters<typeof openWhole>[2], stop: AbortSignal) =>
      openWhole(registry, access, layer, stop),
  };
  const { version, isAssumed, hasEnvironment } = await baseLibc.glibcOf(base, signal);
  if (isAssumed) {
    log(
      `${formatPlatform(platform)}: no glibc was found in the base image, so version ${version} is assumed`,
    );
  }
  if (hasEnvironment) {
    log(
      `${formatPlatform(platform)}: the base image has a Conda environment at ${environmentPrefix}, which the packages replace`,
    );
  }
  return {
    virtualPackages: virtualPackages({ subdir: subdirOf(platform), glibc: version, cuda }),
    hasEnvironment,
  };
}
