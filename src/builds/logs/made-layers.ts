import type { Documents, MadeOf } from '../../images/index.ts';
import {
  asObject,
  type Descriptor,
  type Document,
  memberName,
  parseJson,
  parseManifest,
} from '../../oci/index.ts';
import { isAttestation } from '../../oci/naming.ts';
import type { PlatformLayers, RecordedLayer } from './build-step.ts';

type Made = Pick<MadeOf, 'image' | 'source'>;
type Reads = Pick<Documents, 'manifest' | 'config'>;

/**
 * Returns the layers of an image that was made, with what made each, for all platforms; none for an image that cannot
 * be read, whose push reports that.
 */
export async function layersOf(made: Made, documents: Reads): Promise<readonly PlatformLayers[]> {
  try {
    return await readLayers(made, documents);
  } catch {
    return [];
  }
}

async function readLayers(made: Made, documents: Reads): Promise<readonly PlatformLayers[]> {
  const { image, source } = made;
  const found: PlatformLayers[] = [];
  const add = async (document: Document, platform: string | undefined): Promise<void> => {
    const manifest = parseManifest(document);
    if (manifest.kind === 'index') {
      for (const entry of manifest.manifests) {
        if (isAttestation(entry)) continue;
        const { os, architecture, variant } = entry.platform ?? {};
        const child =
          image.generated.get(entry.digest) ??
          (await documents.manifest(source, entry.digest, entry.mediaType ?? ''));
        await add(child, [os, architecture, variant].filter(part => part).join('/'));
      }
    } else if (manifest.kind === 'manifest') {
      const config =
        image.generated.get(manifest.config.digest) ??
        (await documents.config(source, manifest.config));
      found.push(platformLayers(manifest.layers, config, platform));
    }
  };
  await add(image.root, undefined);
  return found;
}

function platformLayers(
  layers: readonly Descriptor[],
  { bytes }: Document,
  platform: string | undefined,
): PlatformLayers {
  const config = parseJson(bytes, 'config');
  const text = (name: string) => {
    const value = config[memberName(config, name)];
    return typeof value === 'string' ? value : 'unknown';
  };
  const history = config[memberName(config, 'history')];
  const makers = (Array.isArray(history) ? history : [])
    .map(entry => asObject(entry) ?? {})
    .filter(entry => entry.empty_layer !== true)
    .map(entry => (typeof entry.created_by === 'string' ? entry.created_by : undefined));
  // A history that does not fit the layers says nothing about any of them.
  const fits = makers.length === layers.length;
  return {
    platform: platform || `${text('os')}/${text('architecture')}`,
    layers: layers.map(({ digest, size }, at): RecordedLayer => {
      return { digest, size, by: fits ? makers[at] : undefined };
    }),
  };
}
