import { inField } from '../../builds/plan/index.ts';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { architectureOf, type InjectedLayer } from '../../images/augment/index.ts';
import {
  type BaseResolver,
  type Documents,
  imageConfig,
  type RightWatch,
} from '../../images/index.ts';
import { checkLayerType } from '../../images/sif/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  mayBeImage,
  parseJson,
  parseManifest,
} from '../../oci/index.ts';
import { bareMediaType, isElsewhere } from '../../oci/media-type.ts';
import {
  defaultPlatform,
  formatPlatform,
  formatReference,
  goArchitecture,
  type Platform,
  parseReference,
  type Reference,
} from '../../oci/naming.ts';
import type { Identities } from '../../platform/index.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import { type Access, accessTo, openWhole, type RegistryClient } from '../../upstream/index.ts';
import { wantedPlatforms } from '../asked-image.ts';
import type { Submission } from '../container-request.ts';
import type { FindServed } from '../served-name.ts';
import type { IncludedLayer, LayerCaller, LayerIntake } from './layers.ts';

/** An included image, which its registry has shown to the caller. */
export interface IncludedImage {
  /** By digest. */
  readonly image: Reference;
  readonly access: Access;
}

/** What included images add to a request. */
export interface Included {
  readonly images: readonly IncludedImage[];
  readonly layers: readonly InjectedLayer[];
}

/**
 * Takes in the layers of images that a request includes, with the rights of the caller: from then on, they are layers of
 * the request like those that it brings along. All methods throw {@link Fault}.
 */
export interface IncludedImages {
  /** @param base the image that the layers are added to; undefined for one that is built */
  take(
    submission: Submission,
    base: Promise<IncludingBase | undefined>,
    caller: LayerCaller,
  ): Promise<Included>;
  /** Checks the right to images that another request has included. */
  show(images: readonly Reference[], caller: LayerCaller): Promise<readonly IncludedImage[]>;
}

interface IncludingBase {
  readonly access: Access;
  readonly document: Document;
}

export interface IncludedImagesDeps {
  readonly bases: BaseResolver;
  readonly documents: Pick<Documents, 'config'>;
  readonly registry: RegistryClient;
  readonly layers: Pick<LayerIntake, 'takeIncluded'>;
  readonly credentialsOf: Identities['credentialsOf'];
  readonly findServed: FindServed;
  readonly rights: Pick<RightWatch, 'note'>;
}

/** Layers of all included images for one platform: Docker's classic image store supports 125 in an image. */
const mostLayers = 125;
// The registry shows the image itself anew for each request.
const shownMs = 30_000;
const shownLayers = 50_000;
/** More than any image has. */
const mostPlatforms = 16;

export function createIncludedImages(deps: IncludedImagesDeps): IncludedImages {
  const { bases, documents, registry, layers, findServed, rights } = deps;

  const shown = boundedCache<string, true>(shownLayers, { ttl: shownMs });

  const resolve = async (image: Reference, { grant, network }: LayerCaller) => {
    const access = { ...(await accessTo(image, deps.credentialsOf(grant))), network };
    const root = await bases.resolve(access, image);
    rights.note(access, root.digest);
    return { access, root };
  };

  /** Returns the layers of the image for one platform, as they are at the registry. */
  const layersOf = async (
    access: Access,
    image: Reference,
    root: Document,
    platform: Platform,
    isMarked: boolean,
  ): Promise<readonly IncludedLayer[]> => {
    const named = formatReference(image);
    const manifest = parseManifest(await bases.select(access, image, root, platform));
    const config =
      manifest.kind === 'manifest' ? await imageConfig(documents, access, manifest) : undefined;
    if (manifest.kind !== 'manifest' || !config) {
      throw refusal(`${named} is not a container image`);
    }
    const diffIds = asObject(parseJson(config.bytes, 'config').rootfs)?.diff_ids;
    if (!Array.isArray(diffIds) || diffIds.length !== manifest.layers.length) {
      throw refusal(
        `${named} has a config that does not fit its layers: push it again, built by another tool`,
      );
    }
    const { registry: host, repository } = access;
    return manifest.layers.map((descriptor, at): IncludedLayer => {
      const name = `layer ${at + 1} of ${named}`;
      checkLayer(descriptor, name);
      const digest = descriptor.digest as Digest;
      return {
        name,
        layer: {
          gzipDigest: digest,
          gzipSize: descriptor.size,
          tarDigest: diffIds[at] as Digest,
          ...(isMarked ? { architecture: goArchitecture(platform.architecture) } : {}),
          from: `${host}/${repository}@${root.digest}`,
        },
        place: `${host}/${repository}@${digest}`,
        show: async signal => {
          const key = `${credentialKey(access.credentials)} ${host}/${repository}@${digest} ${descriptor.size}`;
          if (shown.has(key)) return;
          const size = await registry.headBlob(access, digest, signal);
          if (size !== undefined && size !== descriptor.size) {
            throw refusal(`${name} has ${size} bytes, not ${descriptor.size} as its image says`);
          }
          shown.set(key, true);
        },
        open: signal => openWhole(registry, access, descriptor, signal),
      };
    });
  };

  /** Returns the platforms that the images must have. */
  const platformsOf = async (
    submission: Submission,
    base: Promise<IncludingBase | undefined>,
  ): Promise<readonly Platform[]> => {
    const found = await base;
    const wanted = wantedPlatforms(submission);
    if (wanted.length > 0) return wanted;
    if (!found) return [defaultPlatform];
    const { access, document } = found;
    const manifest = parseManifest(document);
    if (manifest.kind === 'index') {
      const offered = manifest.manifests
        .filter(mayBeImage)
        .flatMap(({ platform }) => (platform?.os === 'linux' ? [platform as Platform] : []));
      if (offered.length > 0) return offered;
    }
    const config =
      manifest.kind === 'manifest' ? await imageConfig(documents, access, manifest) : undefined;
    const architecture = config && architectureOf(config.bytes);
    if (architecture !== undefined) return [{ os: 'linux', architecture }];
    throw refusal(
      "'containerIncludes' needs an image that says which platforms it is for, and 'containerImage' does not: name another image",
    );
  };

  /** Returns what a name refers to now. */
  const find = async (field: string, name: string, caller: LayerCaller) => {
    const image = inField(field, () => parseReference(name));
    if (await findServed(image)) {
      throw refusal(
        `'${field}' is the served name of a container request: name the image that it was made for`,
      );
    }
    const { access, root } = await ofField(field, resolve(image, caller));
    return { field, image, access, root };
  };

  return {
    async take(submission, base, caller) {
      const { containerIncludes: names = [] } = submission;
      const [platforms, found] = await Promise.all([
        platformsOf(submission, base),
        Promise.all(names.map((name, at) => find(`containerIncludes[${at}]`, name, caller))),
      ]);
      const wanted = onePerArchitecture(platforms);
      if (wanted.length > mostPlatforms) {
        throw refusal(
          `'containerIncludes': the image has more than ${mostPlatforms} architectures, so name one 'containerPlatform'`,
        );
      }
      const isMarked = wanted.length > 1;
      const taken: IncludedLayer[] = [];
      for (const { field, image, access, root } of found) {
        for (const platform of wanted) {
          taken.push(...(await ofField(field, layersOf(access, image, root, platform, isMarked))));
        }
      }
      if (taken.length > mostLayers * wanted.length) {
        throw refusal(
          `'containerIncludes': the images have more than ${mostLayers} layers together, which is more than clients can store: include fewer`,
        );
      }
      return {
        images: found.map(({ image, access, root }) => ({
          image: pinned(image, root.digest),
          access,
        })),
        layers: await layers.takeIncluded(taken, caller),
      };
    },

    async show(images, caller) {
      return Promise.all(
        images.map(async image => ({ image, access: (await resolve(image, caller)).access })),
      );
    },
  };
}

/** The lowest variant of each architecture: its programs also run on the higher ones. */
function onePerArchitecture(platforms: readonly Platform[]): readonly Platform[] {
  const lowest = new Map<string, Platform>();
  const sorted = platforms.toSorted((a, b) => (formatPlatform(a) < formatPlatform(b) ? -1 : 1));
  for (const platform of sorted) {
    const architecture = goArchitecture(platform.architecture);
    if (!lowest.has(architecture)) lowest.set(architecture, platform);
  }
  return [...lowest.values()];
}

/** Checks that a layer can be kept as it is: a gzip file that its registry has. */
function checkLayer(layer: Descriptor, name: string): void {
  checkLayerType(layer.mediaType, name);
  if (isElsewhere(layer)) throw refusal(`${name} is not at its registry: include another image`);
  const type = bareMediaType(layer.mediaType) ?? '';
  if (!/(?:\+|\.)gzip$/.test(type) || !layer.digest.startsWith('sha256:')) {
    throw refusal(
      `${name} has the type ${JSON.stringify(type.slice(0, 100))} and the digest ${layer.digest.slice(0, 80)}: only gzip layers with sha256 digests can be included. Push the image with gzip layers, or use COPY --from=IMAGE in a 'containerFile'`,
    );
  }
}

function pinned({ registry, repository }: Reference, digest: Digest): Reference {
  return { registry, repository, digest };
}

/** Adds the name of the field to failures of its image. */
async function ofField<T>(field: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const told = `'${field}': ${error.message}`;
    throw error.kind === 'manifest-unknown' ? refusal(told, error) : error.retold(told);
  }
}

function refusal(message: string, cause?: unknown): Fault {
  return new Fault('bad-request', message, { phase: 'request', cause });
}
