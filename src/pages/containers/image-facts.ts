import { imageConfig } from '../../images/index.ts';
import type { Digest } from '../../oci/digest.ts';
import {
  asObject,
  type Document,
  type JsonObject,
  memberName,
  parseLossless,
  parseManifest,
} from '../../oci/index.ts';
import { isAttestation } from '../../oci/naming.ts';
import type { InspectedImage } from '../../request/index.ts';

/** A layer of an image, with the line of the history that belongs to it. */
export interface LayerFacts {
  readonly digest: Digest;
  readonly size: number;
  /** Undefined where the history does not fit the layers. */
  readonly by: string | undefined;
}

/** One image of one platform. */
export interface ImageFacts {
  readonly layers: readonly LayerFacts[];
  /** The image config; empty for an artifact. */
  readonly config: JsonObject;
}

/** The images of a manifest or index by platform, without reading them. */
export interface PlatformChoice {
  /** Such as `linux/arm64/v8`; empty for a single image, which has no choice. */
  readonly platforms: readonly string[];
  /** Reads the image of a platform; undefined for an index without it. */
  read(platform: string): Promise<ImageFacts | undefined>;
}

/** Returns the platforms of an image, in the order of its index. */
export function choiceOf({ access, root, documents }: InspectedImage): PlatformChoice {
  const manifest = parseManifest(root);
  if (manifest.kind !== 'index') {
    return { platforms: [], read: () => readImage(root) };
  }
  const entries = new Map(
    manifest.manifests
      .filter(entry => entry.platform && !isAttestation(entry))
      .map(entry => {
        const { os = '', architecture = '', variant } = entry.platform ?? {};
        return [[os, architecture, variant].filter(part => part).join('/'), entry] as const;
      }),
  );
  return {
    platforms: [...entries.keys()],
    async read(platform) {
      const entry = entries.get(platform);
      if (!entry) return undefined;
      return readImage(await documents.manifest(access, entry.digest, entry.mediaType));
    },
  };

  async function readImage(document: Document): Promise<ImageFacts> {
    const parsed = parseManifest(document);
    if (parsed.kind !== 'manifest') return { layers: [], config: {} };
    const own = await imageConfig(documents, access, parsed);
    const config = own ? parseLossless(own.bytes, 'config') : {};
    const makers = makersIn(config);
    // A history that does not fit the layers says nothing about any of them.
    const fits = makers.length === parsed.layers.length;
    return {
      config,
      layers: parsed.layers.map(({ digest, size }, at) => ({
        digest,
        size,
        by: fits ? makers[at] : undefined,
      })),
    };
  }
}

function makersIn(config: JsonObject): (string | undefined)[] {
  const history = config[memberName(config, 'history')];
  return (Array.isArray(history) ? history : [])
    .map(entry => asObject(entry) ?? {})
    .filter(entry => entry.empty_layer !== true)
    .map(({ created_by }) => (typeof created_by === 'string' ? created_by : undefined));
}
