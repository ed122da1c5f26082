import { usualLevel } from '../../../archives/deflate/deflate.ts';
import { workOnEach } from '../../../foundation/semaphore.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import { estargzAnnotations, type InjectedLayer } from '../../../images/augment/index.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import type { PackageLayerRow } from '../../../storage/rows/index.ts';
import { goneMeanwhile, type KeptLayers } from '../kept-layers.ts';
import { formLayerKey } from '../layer-key.ts';
import type { EstargzFacts } from './reform-layer.ts';
import { usualZstdLevel } from './zstd-writer.ts';

/** How layers of packages are compressed. */
export interface LayerForm {
  readonly mode: 'gzip' | 'zstd' | 'estargz';
  /** 0 to 9, for zstd 0 to 22. Default: that of all layers of packages, or {@link usualZstdLevel}. */
  readonly level?: number | undefined;
}

/** Returns layers of packages in another form, each made once for all images. Throws a `Fault` when one of them is gone. */
export type ReformLayers = (
  layers: readonly InjectedLayer[],
  form: LayerForm,
  signal: AbortSignal,
) => Promise<readonly InjectedLayer[]>;

export interface LayerFormsDeps {
  readonly content: Pick<ContentStore, 'lease'>;
  readonly kept: Pick<KeptLayers, 'use' | 'make'>;
}

/** Layers of an image that are made at once. Others wait behind no more than these, however many an image has. */
const layersAtOnce = 4;

export function createLayerForms({ content, kept }: LayerFormsDeps): ReformLayers {
  const making = new SingleFlight<PackageLayerRow>();

  const make = async (
    key: string,
    { gzipDigest, gzipSize: size }: InjectedLayer,
    form: { readonly mode: LayerForm['mode']; readonly level: number },
    signal: AbortSignal,
  ): Promise<PackageLayerRow> => {
    await using file = await content.lease(gzipDigest);
    if (!file) throw goneMeanwhile();
    // Not before it ends: a copy from an object store would go.
    return await kept.make(
      key,
      { kind: 'form', layer: { path: file.path, size }, ...form },
      signal,
    );
  };

  return async (layers, { mode, level = usualLevelOf(mode) }, signal) => {
    if (mode === 'gzip' && level === usualLevel) return layers;
    const reformed: InjectedLayer[] = [];
    await workOnEach(layers.entries(), layersAtOnce, async ([at, layer]) => {
      const form = { mode, level };
      const key = formLayerKey(layer.gzipDigest, form);
      const row =
        (await kept.use(key)) ??
        (await making.run(stop => make(key, layer, form, stop), { key, signal }));
      const { digest, size, tarDigest } = row;
      reformed[at] = {
        ...layer,
        gzipDigest: digest,
        gzipSize: size,
        tarDigest,
        ...(mode === 'estargz' ? { annotations: annotationsOf(row) } : {}),
        ...(mode === 'zstd' ? { compression: mode } : {}),
      };
    });
    return reformed;
  };
}

/** Returns the level of a form that names none. */
export function usualLevelOf(mode: LayerForm['mode']): number {
  return mode === 'zstd' ? usualZstdLevel : usualLevel;
}

/** Returns what lazy clients verify. */
function annotationsOf({
  facts,
}: Pick<PackageLayerRow, 'facts'>): Readonly<Record<string, string>> {
  return estargzAnnotations(JSON.parse(facts ?? '{}') as EstargzFacts);
}
