import { inField } from '../../builds/plan/index.ts';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { inTurns, unlessAborted } from '../../foundation/work.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import {
  type BaseResolver,
  type Documents,
  mostBytes,
  type RightWatch,
} from '../../images/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { Descriptor, Document } from '../../oci/index.ts';
import { bareMediaType, isElsewhere, isLayerType } from '../../oci/media-type.ts';
import {
  compareVariants,
  defaultPlatform,
  formatPlatform,
  formatReference,
  goArchitecture,
  OciSyntaxError,
  type Platform,
  parseReference,
  type Reference,
  runsOn,
} from '../../oci/naming.ts';
import type { Identities } from '../../platform/index.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import { type Access, accessTo, openWhole, type RegistryClient } from '../../upstream/index.ts';
import { wantedPlatforms } from '../asked-image.ts';
import type { Submission } from '../container-request.ts';
import type { FindServed } from '../served-name.ts';
import {
  type DocumentBudget,
  imagesByPlatform,
  mostLayers,
  type PlatformImage,
} from './images-by-platform.ts';
import type { IncludedLayer } from './included-layers.ts';
import type { Packing } from './layer-check.ts';
import type { LayerIntake } from './layer-intake.ts';
import type { LayerCaller } from './one-intake.ts';

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
  /** Returns the included images as they are named. */
  named(submission: Submission): Promise<readonly Reference[]>;
  /**
   * Returns what {@link take} would, without fetching a layer: the layers are as their images describe them.
   *
   * @param base finds the image that the layers are added to; undefined for one that is built
   */
  list(
    submission: Submission,
    base: () => Promise<IncludingBase | undefined>,
    caller: LayerCaller,
  ): Promise<Included>;
  /** Fetches the layers that are not here yet, and checks all of them. @param base as for {@link list} */
  take(
    submission: Submission,
    base: () => Promise<IncludingBase | undefined>,
    caller: LayerCaller,
  ): Promise<Included>;
  /** Checks the right to images that another request has included. */
  show(images: readonly Reference[], caller: LayerCaller): Promise<readonly IncludedImage[]>;
}

/** The image that layers are added to. */
export interface IncludingBase {
  readonly access: Access;
  readonly document: Document;
}

export interface IncludedImagesDeps {
  readonly bases: Pick<BaseResolver, 'resolve'>;
  readonly documents: Pick<Documents, 'manifest' | 'config' | 'collect'>;
  readonly registry: RegistryClient;
  readonly layers: Pick<LayerIntake, 'takeIncluded' | 'expectIncluded'>;
  readonly credentialsOf: Identities['credentialsOf'];
  readonly findServed: FindServed;
  readonly rights: Pick<RightWatch, 'note'>;
}

// For each request, the registry is asked for the image again.
const shownMs = 30_000;
const shownLayers = 50_000;
/** More than any image has. */
const mostPlatforms = 16;
/** Characters of the layers in the row of the request. Each pull reads it. */
const mostText = 512 * 1024;
/** Manifests and configs of all included images, and as many of the base. */
const mostDocuments: Readonly<DocumentBudget> = { bytes: 8 * 1024 * 1024, manifests: 300 };
/** For all requests for images before the first layer is fetched (ms). */
const listMs = 60_000;

export function createIncludedImages(deps: IncludedImagesDeps): IncludedImages {
  const { bases, documents, registry, layers, findServed, rights } = deps;

  const shown = boundedCache<string, true>(shownLayers, { ttl: shownMs });

  const resolve = async (image: Reference, { grant, network, signal }: LayerCaller) => {
    signal?.throwIfAborted();
    const access = { ...(await accessTo(image, deps.credentialsOf(grant))), network };
    const root = await unlessAborted(bases.resolve(access, image), signal);
    rights.note(access, root.digest);
    return { access, root };
  };

  /** Returns a layer as its image describes it. */
  const layerOf = (
    { field, image, access, root }: Found,
    { layers: own, diffIds = [] }: PlatformImage,
    at: number,
    architecture: string,
  ): IncludedLayer => {
    const descriptor = own[at] as Descriptor;
    const name = `'${field}': layer ${at + 1} of ${own.length} of ${formatReference(image)}`;
    const packing = packingOf(descriptor, name);
    const tarDigest = diffIds[at];
    if (!tarDigest?.startsWith('sha256:')) {
      throw refusal(`${name} has no valid diff ID in the config of its image: push it again`);
    }
    const { registry: host, repository } = access;
    const digest = descriptor.digest as Digest;
    const place = `${host}/${repository}@${digest}`;
    const { annotations } = descriptor;
    const right = `${credentialKey(access.credentials)} ${place}`;
    return {
      name,
      layer: {
        gzipDigest: digest,
        gzipSize: descriptor.size,
        tarDigest,
        architecture,
        ...(annotations ? { annotations } : {}),
        from: `${host}/${repository}@${root.digest}`,
      },
      packing,
      place,
      right,
      show: async signal => {
        const key = `${right} ${descriptor.size}`;
        if (shown.has(key)) return;
        // A registry may answer HEAD for those who may not read.
        const one = { offset: 0, last: 0, redirects: 'follow', signal } as const;
        const opened = await registry.openBlob(access, digest, one);
        if (opened.kind === 'redirect') throw refusal('it is elsewhere');
        opened.response.body.destroy();
        const size = opened.total;
        if (size !== undefined && size !== descriptor.size) {
          throw refusal(`it has ${size} bytes, not ${descriptor.size} as its image says`);
        }
        shown.set(key, true);
      },
      open: signal => openWhole(registry, access, descriptor, signal),
    };
  };

  /** Returns the platforms of the image that the layers are added to: one for each architecture. */
  const platformsOf = async (
    submission: Submission,
    base: IncludingBase | undefined,
    signal: AbortSignal,
  ): Promise<readonly Platform[]> => {
    if (!base) {
      const wanted = wantedPlatforms(submission);
      return wanted.length > 0 ? wanted : [defaultPlatform];
    }
    const { access, document } = base;
    // All at once, and the change of the image needs them in any case.
    await unlessAborted(documents.collect(access, document), signal);
    const isNeeded = ({ platform }: Descriptor) => platform?.os !== 'windows';
    const budget = { ...mostDocuments, bytes: mostBytes };
    const source = { documents, access, isNeeded, budget, signal };
    const { images } = await imagesByPlatform(source, document);
    const platforms = images.map(({ platform }) => platform);
    const nameless = platforms.some(
      ({ architecture }) => architecture === '' || architecture.length > longestArchitecture,
    );
    if (platforms.length === 0 || nameless) {
      throw refusal(
        "'containerIncludes' needs an image that says which platforms it is for, and 'containerImage' does not: name another image",
      );
    }
    const other = platforms.find(({ os }) => os !== 'linux');
    if (other) {
      throw refusal(
        `'containerIncludes': 'containerImage' has an image for ${formatPlatform(other).slice(0, 80)}, and layers for Linux cannot be added to it: name one 'containerPlatform', or another image`,
      );
    }
    const lowest = onePerArchitecture(platforms);
    if (lowest.length > mostPlatforms) {
      throw refusal(
        `'containerIncludes': the image has more than ${mostPlatforms} architectures, so name one 'containerPlatform'`,
      );
    }
    return lowest;
  };

  /** Returns what a name refers to now. */
  const find = (field: string, image: Reference, caller: LayerCaller): Promise<Found> =>
    ofField(field, async () => ({ field, image, ...(await resolve(image, caller)) }));

  /** Returns the layers of an image for each platform, as they are at the registry. */
  const layersOf = (
    found: Found,
    platforms: readonly Platform[],
    budget: DocumentBudget,
    signal: AbortSignal,
  ): Promise<readonly (readonly IncludedLayer[])[]> =>
    ofField(found.field, async () => {
      const { image, access, root } = found;
      const isNeeded = ({ platform }: Descriptor) =>
        !platform?.architecture ||
        platforms.some(
          ({ os, architecture }) =>
            (platform.os || os) === os && goArchitecture(platform.architecture) === architecture,
        );
      const source = { documents, access, isNeeded, budget, signal };
      const { images, offered } = await imagesByPlatform(source, root);
      const stacks: IncludedLayer[][] = [];
      for (const wanted of platforms) {
        const [chosen] = images
          .filter(({ platform }) => runsOn(wanted, platform))
          .toSorted((a, b) => compareVariants(b.platform, a.platform));
        if (!chosen) {
          throw refusal(
            `${formatReference(image)} has no image for ${formatPlatform(wanted)}; it has: ${offered}. Name one 'containerPlatform' that all images have, or include another image`,
          );
        }
        if (chosen.layers.length > mostLayers) throw tooManyLayers();
        if (chosen.diffIds?.length !== chosen.layers.length) {
          throw refusal(
            `${formatReference(image)} has a config that does not fit its layers: push it again, built by another tool`,
          );
        }
        const positions = [...chosen.layers.keys()];
        stacks.push(positions.map(at => layerOf(found, chosen, at, wanted.architecture)));
        await pauseTurn();
      }
      return stacks;
    });

  const named = async ({ containerIncludes = [] }: Submission) => {
    const references = containerIncludes.map((name, at) =>
      inField(fieldAt(at), () => parseReference(name)),
    );
    for (const [at, image] of references.entries()) {
      if (!(await findServed(image))) continue;
      throw refusal(
        `'${fieldAt(at)}' is the served name of a container request: name the image that it was made for`,
      );
    }
    return references;
  };

  const list = async (
    submission: Submission,
    base: () => Promise<IncludingBase | undefined>,
    caller: LayerCaller,
  ) => {
    const names = await named(submission);
    if (names.length === 0) return { images: [], stacks: [] };
    return within(listMs, caller.signal, async signal => {
      const [platforms, found] = await Promise.all([
        base().then(image => platformsOf(submission, image, signal)),
        Promise.all(names.map((name, at) => find(fieldAt(at), name, { ...caller, signal }))),
      ]);
      refuseDuplicates(found);
      const budget = { ...mostDocuments };
      const parts = await inTurns(imagesAtOnce, found, one =>
        layersOf(one, platforms, budget, signal),
      );
      const stacks = parts.flat();
      const listed = stacks.flat();
      if (listed.length > mostLayers * platforms.length) throw tooManyLayers();
      if (JSON.stringify(listed.map(({ layer }) => layer)).length > mostText) {
        throw refusal(
          "'containerIncludes': the images have too many layers for all platforms together: name one 'containerPlatform', or include fewer images",
        );
      }
      const images = found.map(({ image, access, root }) => ({
        image: pinned(image, root.digest),
        access,
      }));
      return { images, stacks };
    });
  };

  return {
    named,

    async list(submission, base, caller) {
      const { images, stacks } = await list(submission, base, caller);
      return { images, layers: await layers.expectIncluded(stacks) };
    },

    async take(submission, base, caller) {
      const { images, stacks } = await list(submission, base, caller);
      return { images, layers: await layers.takeIncluded(stacks, caller) };
    },

    async show(images, caller) {
      return Promise.all(
        images.map(async image => ({ image, access: (await resolve(image, caller)).access })),
      );
    },
  };
}

/** An included image, and what its name refers to now. */
interface Found {
  readonly field: string;
  readonly image: Reference;
  readonly access: Access;
  readonly root: Document;
}

const imagesAtOnce = 4;
const longestArchitecture = 40;

function fieldAt(position: number): string {
  return `containerIncludes[${position}]`;
}

/** Does work whose signal is aborted after the time (ms), when the caller leaves, and when the work has ended. */
async function within<T>(
  ms: number,
  given: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(tooSlow(ms)), ms);
  const signal = given ? AbortSignal.any([given, stop.signal]) : stop.signal;
  try {
    return await unlessAborted(work(signal), signal);
  } finally {
    clearTimeout(timer);
    // Parts that run on after the failure of another one.
    stop.abort();
  }
}

function refuseDuplicates(found: readonly Found[]): void {
  const seen = new Set<string>();
  for (const { field, image, access, root } of found) {
    const key = `${access.registry}/${access.repository}@${root.digest}`;
    if (seen.has(key)) {
      throw refusal(
        `'${field}': ${formatReference(image)} is an image that the list has already: name it once`,
      );
    }
    seen.add(key);
  }
}

/** The lowest variant of each architecture: its programs also run on the higher ones. */
function onePerArchitecture(platforms: readonly Platform[]): readonly Platform[] {
  const lowest = new Map<string, Platform>();
  for (const platform of platforms) {
    const before = lowest.get(platform.architecture);
    if (before && compareVariants(before, platform) <= 0) continue;
    lowest.set(platform.architecture, platform);
  }
  return [...lowest.values()];
}

const packings: readonly (readonly [end: string, packing: Packing])[] = [
  ['gzip', 'gzip'],
  ['zstd', 'zstd'],
  ['tar', 'none'],
];

/** Returns how a layer is compressed. Throws a {@link Fault} for one that cannot be read: encrypted, elsewhere, or of another type. */
function packingOf(layer: Descriptor, name: string): Packing {
  if (isElsewhere(layer)) throw refusal(`${name} is not at its registry: include another image`);
  const type = bareMediaType(layer.mediaType) ?? '';
  const packing = packings.find(([end]) => type.endsWith(end))?.[1];
  if (!isLayerType(type) || !packing || !layer.digest.startsWith('sha256:')) {
    throw refusal(
      `${name} has the type ${JSON.stringify(type.slice(0, 100))} and the digest ${layer.digest.slice(0, 80)}: only tar, gzip and zstd layers with sha256 digests can be included. Push the image again, or use COPY --from=IMAGE in a 'containerFile'`,
    );
  }
  return packing;
}

function pinned({ registry, repository }: Reference, digest: Digest): Reference {
  return { registry, repository, digest };
}

/** Adds the name of the field to failures of its image. An image that is missing or malformed is a mistake in the request. */
async function ofField<T>(field: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof OciSyntaxError) throw refusal(`'${field}': ${error.message}`, error);
    if (!(error instanceof Fault)) throw error;
    const message = error.message.startsWith(`'${field}'`)
      ? error.message
      : `'${field}': ${error.message}`;
    throw error.status === 404 ? refusal(message, error) : error.withMessage(message);
  }
}

function tooManyLayers(): Fault {
  return refusal(
    `'containerIncludes': the images have more than ${mostLayers} layers together, which is more than clients can store: include fewer`,
  );
}

function tooSlow(ms: number): Fault {
  return refusal(
    `'containerIncludes': the registries did not describe the images within ${ms / 1000} s: try again later, or include fewer images`,
  );
}

function refusal(message: string, cause?: unknown): Fault {
  return new Fault('bad-request', message, { phase: 'request', cause });
}
