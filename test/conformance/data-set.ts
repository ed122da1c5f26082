import { type DigestAlgorithm, digestOf } from '../../src/oci/digest.ts';
import { bytesOf, type Descriptor, mediaTypes } from '../corpus/content.ts';
import { type Compression, layerOf } from '../corpus/layer.ts';

/** Content that belongs together, and the expected answers of a registry. */
export interface DataSet {
  readonly name: string;
  /** The name as it can be part of a repository's. */
  readonly slug: string;
  /** By digest. */
  readonly blobs: ReadonlyMap<string, Buffer>;
  /** In a possible order of pushes: referenced content comes before a manifest. */
  readonly manifests: readonly DraftManifest[];
  /** The descriptors that must be in the list of referrers, by the digest of their subject. */
  readonly referrers: ReadonlyMap<string, readonly Descriptor[]>;
}

export interface DraftManifest {
  readonly digest: string;
  readonly bytes: Buffer;
  readonly mediaType: string;
  readonly subject: string | undefined;
  readonly tags: readonly string[];
  /** Its tags are in the query of a push by digest. */
  readonly tagsInQuery: boolean;
}

export interface DraftOptions {
  readonly algorithm?: DigestAlgorithm;
  /** Descriptors hold their content as well. */
  readonly inlineData?: boolean;
  readonly family?: 'oci' | 'docker';
  readonly tagsInQuery?: boolean;
}

export interface Platform {
  readonly os: string;
  readonly architecture: string;
}

export interface ManifestOptions {
  readonly tags?: readonly string[];
  readonly members?: Members;
}

/** Members of a manifest beside those that every one has. */
export interface Members {
  readonly subject?: Descriptor;
  readonly artifactType?: string;
  readonly annotations?: object;
  readonly config?: Descriptor;
  readonly [member: string]: unknown;
}

export interface ImageOptions extends ManifestOptions {
  readonly platform?: Platform;
  /** Default: two layers. */
  readonly layers?: readonly Descriptor[];
  /** Default: an image configuration. */
  readonly config?: Descriptor;
}

/** Adds content. Every method returns the descriptor for references to it. */
export interface Draft {
  blob(mediaType: string, content: string | Buffer): Descriptor;
  layer(compression?: Compression): Promise<Descriptor>;
  image(options?: ImageOptions): Promise<Descriptor>;
  index(manifests: readonly Descriptor[], options?: ManifestOptions): Descriptor;
  readonly dataSet: DataSet;
}

const families = {
  oci: {
    manifest: mediaTypes.ociManifest,
    index: mediaTypes.ociIndex,
    config: mediaTypes.ociConfig,
    layer: undefined,
  },
  docker: {
    manifest: mediaTypes.dockerManifest,
    index: mediaTypes.dockerList,
    config: mediaTypes.dockerConfig,
    layer: mediaTypes.dockerLayer,
  },
} as const;

export const linux = (architecture: string): Platform => ({ os: 'linux', architecture });

/** An empty data set; content of sets with different names differs. */
export function draftDataSet(name: string, options: DraftOptions = {}): Draft {
  const { algorithm, inlineData = false, family = 'oci', tagsInQuery = false } = options;
  const types = families[family];
  const blobs = new Map<string, Buffer>();
  const manifests: DraftManifest[] = [];
  const referrers = new Map<string, Descriptor[]>();
  const diffIds = new Map<string, string>();
  const slug = name.replaceAll(/\W+/g, '-').toLowerCase();
  let layerCount = 0;

  const describe = (mediaType: string, bytes: Buffer): Descriptor => ({
    ...{ mediaType, digest: digestOf(bytes, algorithm), size: bytes.length },
    ...(inlineData ? { data: bytes.toString('base64') } : {}),
  });

  const blob: Draft['blob'] = (mediaType, content) => {
    const bytes = Buffer.from(content);
    const descriptor = describe(mediaType, bytes);
    blobs.set(descriptor.digest, bytes);
    return descriptor;
  };

  const layer: Draft['layer'] = async compression => {
    const entry = { name: 'conformance.txt', content: `Layer ${++layerCount} of ${name}\n` };
    const { content, diffId } = await layerOf([entry], compression);
    const descriptor = blob(types.layer ?? content.mediaType, bytesOf(content));
    diffIds.set(descriptor.digest, diffId);
    return descriptor;
  };

  const config = (platform: Platform, layers: readonly Descriptor[]) => {
    const diff_ids = layers.map(({ digest }) => diffIds.get(digest) ?? digest);
    const body = { author: name, ...platform, config: {}, rootfs: { type: 'layers', diff_ids } };
    return blob(types.config, JSON.stringify(body));
  };

  const manifest = (
    mediaType: string,
    body: Members,
    { tags = [], members }: ManifestOptions,
  ): Descriptor => {
    const document: Members = { schemaVersion: 2, mediaType, ...body, ...members };
    const bytes = Buffer.from(JSON.stringify(document));
    const descriptor = describe(mediaType, bytes);
    const { subject } = document;
    manifests.push({
      ...{ digest: descriptor.digest, bytes, mediaType, tags, tagsInQuery },
      subject: subject?.digest,
    });
    if (subject) {
      const listed = referrers.get(subject.digest) ?? [];
      referrers.set(subject.digest, [...listed, referrerOf(descriptor, document)]);
    }
    return descriptor;
  };

  return {
    blob,
    layer,
    async image({ platform = linux('amd64'), layers, config: own, ...rest } = {}) {
      const parts = layers ?? [await layer(), await layer()];
      const body = { config: own ?? config(platform, parts), layers: parts };
      const descriptor = manifest(types.manifest, body, rest);
      return { ...descriptor, platform };
    },
    index: (parts, rest = {}) => manifest(types.index, { manifests: parts }, rest),
    dataSet: { name, slug, blobs, manifests, referrers },
  };
}

/**
 * Returns the description of a manifest among the referrers of its subject: an image without an artifact type has that
 * of its configuration, an index has none.
 * Source: OCI distribution specification 1.1, Listing Referrers.
 */
function referrerOf({ mediaType, digest, size }: Descriptor, document: Members): Descriptor {
  const artifactType = document.artifactType ?? document.config?.mediaType;
  const { annotations } = document;
  return {
    ...{ mediaType, digest, size },
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(annotations === undefined ? {} : { annotations }),
  };
}
