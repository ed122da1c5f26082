import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import type { ReadableLayer } from '../../images/listing/index.ts';
import { checkLayerType, sifLayerType } from '../../images/sif/index.ts';
import type { Descriptor } from '../../oci/index.ts';
import { bareMediaType, isElsewhere } from '../../oci/media-type.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import { credentialKey } from '../../upstream/auth/index.ts';
import { openWhole, type RegistryClient } from '../../upstream/index.ts';
import type { InspectedImage } from './inspect.ts';

/**
 * Returns the layers of an image for reading. Throws a `Fault` unless the caller may pull each of them now: the manifest of
 * a registry may name any digest, so the registry is asked for it with the caller's credentials.
 */
export type OpenLayers = (
  image: Pick<InspectedImage, 'access' | 'owns'>,
  layers: readonly Descriptor[],
) => Promise<readonly ReadableLayer[]>;

// Pages of one image follow each other quickly.
const trustMs = 30_000;
const knownLayers = 50_000;
const askedAtOnce = 8;
/** The place of layers that were made here. */
const here = 'here';

export function createOpenLayers({
  registry,
  content,
}: {
  readonly registry: RegistryClient;
  readonly content: Pick<ContentStore, 'open' | 'size'>;
}): OpenLayers {
  const shown = boundedCache<string, true>(knownLayers, { ttl: trustMs });

  return async ({ access, owns }, layers) => {
    const accessKey = `${access.isService ? 'service' : credentialKey(access.credentials)} ${access.registry}/${access.repository}`;

    const check = async ({ digest, size }: Descriptor): Promise<void> => {
      const key = `${accessKey} ${digest} ${size}`;
      if (shown.has(key)) return;
      const found = await registry.headBlob(access, digest);
      if (found !== undefined && found !== size) throw wrongSize(digest, found, size);
      shown.set(key, true);
    };
    const readable = layers.map((descriptor, at): ReadableLayer => {
      const { digest, size } = descriptor;
      const problem = problemOf(descriptor, `layer ${at + 1}`);
      if (!owns?.(digest)) {
        return {
          descriptor,
          problem,
          place: access.registry,
          open: signal => openWhole(registry, access, descriptor, signal),
        };
      }
      return {
        descriptor,
        problem,
        place: here,
        open: async () => {
          if ((await content.size(digest)) === size) return content.open(digest, 0, size - 1);
          throw new Fault(
            'blob-unknown',
            `The layer ${digest} is no longer available: request the image again`,
            {
              phase: 'store',
            },
          );
        },
      };
    });
    const asked = layers.filter((_, at) => {
      const { place, problem } = readable[at] ?? { place: here };
      return place !== here && problem === undefined;
    });
    const queue = asked.values();
    const askOn = async (): Promise<void> => {
      for (const layer of queue) await check(layer);
    };
    await Promise.all(Array.from({ length: askedAtOnce }, askOn));
    return readable;
  };
}

/** Returns why a layer cannot be listed; undefined if it can. */
function problemOf(layer: Descriptor, name: string): string | undefined {
  if (bareMediaType(layer.mediaType) === sifLayerType) {
    return 'It is a Singularity image, one file with a squashfs in it. Sluice does not list its files.';
  }
  if (isElsewhere(layer)) {
    return 'It is a foreign layer: its manifest says that the content is at other addresses, and not part of the image.';
  }
  try {
    checkLayerType(layer.mediaType, name);
    return undefined;
  } catch (error) {
    if (error instanceof Fault) return `${error.message}.`;
    throw error;
  }
}

function wrongSize(digest: string, found: number, size: number): Fault {
  return new Fault(
    'upstream',
    `The registry has ${found} bytes for the layer ${digest}, not ${size} as its manifest says: push the image again`,
    { phase: 'upstream' },
  );
}
