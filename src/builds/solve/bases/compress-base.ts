import type { ReformBaseLayer } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { sizeText } from '../../../foundation/text.ts';
import { inTurns } from '../../../foundation/work.ts';
import {
  estargzAnnotationsIn,
  pointTo,
  type ReplacingLayer,
  replaceLayers,
} from '../../../images/augment/index.ts';
import { blobsOf, type Documents, type MadeOf, type VerifyImage } from '../../../images/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  documentOf,
  manifestType,
  parseJson,
  parseLossless,
  parseManifest,
  writeJson,
} from '../../../oci/index.ts';
import { bareMediaType } from '../../../oci/media-type.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import type { Access, RegistryClient } from '../../../upstream/index.ts';
import type { LayerCompression } from '../../plan/build-plan.ts';
import { localLayer } from '../local-layer.ts';

/** A base image whose layers are compressed again. */
interface BaseToCompress {
  /** Its name, as it was given. */
  readonly name: string;
  readonly source: Access;
  /** A manifest, or an index of the images that are wanted. */
  readonly root: Document;
}

/** Who waits for it. */
interface CompressRun {
  readonly signal: AbortSignal;
  /** The network whose share the layers count towards; undefined for a user. */
  readonly payer: string | undefined;
  readonly write: (text: string) => void;
}

/**
 * Returns a base image with its layers in another form. Its registry must show each of them to the caller, and each has been read
 * once from that registry, as for builders. Throws a {@link Fault}.
 */
export type CompressBase = (
  base: BaseToCompress,
  form: Pick<LayerCompression, 'mode' | 'level'>,
  run: CompressRun,
) => Promise<MadeOf>;

export interface CompressBaseDeps {
  readonly content: ContentStore;
  readonly documents: Documents;
  readonly registry: RegistryClient;
  readonly ownHost: string;
  readonly verify: VerifyImage;
  readonly reformBaseLayer: ReformBaseLayer;
}

/**
 * One is written, one waits, and one is fetched: otherwise those of callers without a login would go between the layers of each image.
 */
const layersAtOnce = 3;

export function createCompressBase(deps: CompressBaseDeps): CompressBase {
  const { content, documents, verify } = deps;

  /** Returns the layers that take the places of others. */
  const reformed = async (
    { source }: BaseToCompress,
    { manifest, layers, diffIds }: ImageLayers,
    form: LayerForm,
    { signal, payer, write }: CompressRun,
  ): Promise<ReadonlyMap<number, ReplacingLayer>> => {
    const chosen = layers.flatMap((layer, at) =>
      form.mode === 'estargz' && estargzAnnotationsIn(layer.annotations) ? [] : [at],
    );
    if (chosen.length === 0) return new Map();
    // As for a builder: what is made of these bytes is used again for other callers.
    const image = { root: manifest, access: source, documents, platforms: [], owns: () => false };
    await verify(image, signal, () => write('The base image is new here: its layers are read.\n'));
    const elsewhere = new Map(layers.map(({ digest }) => [digest, source] as const));
    const made = { image: { root: manifest, generated: new Map() }, added: [], source, elsewhere };
    const blobs = blobsOf(made, deps);
    const done = new Map<number, ReplacingLayer>();
    await inTurns(layersAtOnce, chosen, async at => {
      const layer = layers[at] as Descriptor;
      const { digest, size } = layer;
      const one = {
        digest,
        size,
        diffId: diffIds[at] as Digest,
        isPlain: isPlain(layer),
        host: source.registry,
        open: (stop: AbortSignal) => localLayer(content, blobs, layer, stop),
      };
      const called = `layer ${at + 1} (${digest})`;
      const now = await deps.reformBaseLayer(one, form, { signal, payer }).catch(error => {
        throw error instanceof Fault ? error.withMessage(`${called} ${error.message}`) : error;
      });
      write(`${digest} (${sizeText(size)}): ${now.digest} (${sizeText(now.size)})\n`);
      done.set(at, now);
    });
    return done;
  };

  const compress = async (base: BaseToCompress, form: LayerForm, run: CompressRun) => {
    const { source, root } = base;
    const generated = new Map<Digest, Document>();
    const added = new Set<Digest>();

    const imageOf = async (document: Document): Promise<Document> => {
      const parsed = parseManifest(document);
      if (parsed.kind !== 'manifest') return document;
      const config = await documents.config(source, parsed.config);
      const { layers } = parsed;
      const diffIds = diffIdsIn(config);
      const replaced = await reformed(base, { manifest: document, layers, diffIds }, form, run);
      if (replaced.size === 0) return document;
      const made = replaceLayers({ manifest: document, config }, replaced);
      generated.set(made.config.digest, made.config);
      generated.set(made.manifest.digest, made.manifest);
      for (const { digest } of replaced.values()) added.add(digest);
      return made.manifest;
    };

    const parsed = parseManifest(root);
    if (parsed.kind !== 'index') {
      const image = await imageOf(root);
      return { image: { root: image, generated }, added: [...added], source };
    }
    const body = parseLossless(root.bytes, 'index');
    const entries: unknown[] = Array.isArray(body.manifests) ? body.manifests : [];
    const manifests: unknown[] = [];
    for (const [at, { digest, mediaType }] of parsed.manifests.entries()) {
      const document = await documents.manifest(source, digest, mediaType);
      const image = await imageOf(document);
      manifests.push(image === document ? entries[at] : pointTo(entries[at], image));
    }
    if (generated.size === 0) return { image: { root, generated }, added: [], source };
    const index = documentOf(writeJson({ ...body, manifests }), manifestType(root));
    generated.set(index.digest, index);
    return { image: { root: index, generated }, added: [...added], source };
  };

  return async (base, { mode, level }, run) => {
    try {
      return await compress(base, { mode, level }, run);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const problem = `The layers of the base image ${base.name} cannot be compressed again: ${error.message}`;
      if (error.status >= 500 || error.kind === 'too-many-requests')
        throw error.withMessage(problem);
      throw error.withMessage(
        `${problem.replace(/\.$/, '')}. To keep them as they are, send 'buildCompression.force' false`,
      );
    }
  };
}

interface LayerForm {
  readonly mode: LayerCompression['mode'];
  readonly level: number | undefined;
}

/** The layers of an image for one platform. */
interface ImageLayers {
  readonly manifest: Document;
  readonly layers: readonly Descriptor[];
  readonly diffIds: readonly unknown[];
}

/** Returns true for a type that says that the layer is not compressed. Docker's type says nothing. */
function isPlain({ mediaType }: Descriptor): boolean {
  const type = bareMediaType(mediaType) ?? '';
  return type.startsWith('application/vnd.oci.image.layer.') && !/\+(?:gzip|zstd)$/.test(type);
}

function diffIdsIn({ bytes }: Document): readonly unknown[] {
  const rootfs = asObject(parseJson(bytes, 'config').rootfs);
  return Array.isArray(rootfs?.diff_ids) ? rootfs.diff_ids : [];
}
