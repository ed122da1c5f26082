import { Fault } from '../../../foundation/fault.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import { estargzAnnotations } from '../../../images/augment/index.ts';
import type { Digest } from '../../../oci/digest.ts';
import type { LocalFile } from '../../../storage/content/index.ts';
import type { AnonymousShare, PackageLayerRow } from '../../../storage/rows/index.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { baseLayerKey } from '../layer-key.ts';
import { type LayerForm, usualLevelOf } from './layer-forms.ts';
import type { EstargzFacts } from './reform-layer.ts';

/** A layer of a base image. The caller has proved a right to it, and that it unpacks to its diff ID. */
export interface BaseLayer {
  readonly digest: Digest;
  readonly size: number;
  /** Digest of its tar file. */
  readonly diffId: Digest;
  /** True for one whose type says that it is not compressed. */
  readonly isPlain: boolean;
  /** The registry that sends it. */
  readonly host: string;
  /** Its bytes, until the file is disposed of. */
  readonly open: (signal: AbortSignal) => Promise<LocalFile>;
}

export interface ReformedLayer {
  readonly compression: 'gzip' | 'zstd';
  readonly digest: Digest;
  readonly size: number;
  readonly diffId: Digest;
  /** For lazy clients. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

interface BaseCaller {
  readonly signal: AbortSignal;
  /** The network whose share the layer counts towards; undefined for a user. Users go first. */
  readonly payer: string | undefined;
}

/**
 * Returns a layer of a base image in another form, made once for all images that have it. Throws a {@link Fault} that continues a
 * sentence about the layer.
 */
export type ReformBaseLayer = (
  layer: BaseLayer,
  form: LayerForm,
  caller: BaseCaller,
) => Promise<ReformedLayer>;

export interface BaseFormsDeps {
  readonly kept: Pick<KeptLayers, 'use' | 'make'>;
  readonly share: Pick<AnonymousShare, 'take'>;
  /** Bytes of the tar file of one layer. */
  readonly maxBytes: number;
}

// Of the threads that make layers of packages, a large layer occupies one for minutes.
const atOnce = 1;
/** Layers that are fetched, or wait for their turn here: a registry may send as slowly as it likes. */
const fetchedAtOnce = 6;
const ofOneHost = 3;
const mostWaiting = 200;
/** About the layers of an image. */
const passedBy = 8;

export function createBaseForms({ kept, share, maxBytes }: BaseFormsDeps): ReformBaseLayer {
  // Each caller may read the layer with other rights than the one whose work failed.
  const making = new SingleFlight<PackageLayerRow>({ sharesFailure: false });
  const fetches = new Semaphore({
    limit: fetchedAtOnce,
    perKey: ofOneHost,
    low: { limit: ofOneHost, passedBy },
    mostWaiting,
    refusal: tooBusy,
  });
  const turns = new Semaphore({ limit: atOnce, low: { limit: atOnce, passedBy } });

  return async (layer, { mode, level = usualLevelOf(mode) }, { signal, payer }) => {
    const { digest, diffId, size, isPlain } = layer;
    const form = { mode, level };
    const key = baseLayerKey(digest, diffId, form);
    const isLow = payer !== undefined;
    const make = async (stop: AbortSignal) => {
      using _place = await fetches.take({ key: layer.host, signal: stop, isLow });
      using room = await share.take(payer);
      await using file = await layer.open(stop);
      const from = { path: file.path, size };
      const order = { kind: 'base', layer: from, isPlain, diffId, maxBytes, ...form } as const;
      using _turn = await turns.take({ signal: stop, isLow });
      // Not before it ends: the file would go.
      return await kept.make(key, order, stop, undefined, room);
    };
    const row = (await kept.use(key)) ?? (await making.run(make, { key, signal }));
    const annotations =
      mode === 'estargz'
        ? estargzAnnotations(JSON.parse(row.facts ?? '{}') as EstargzFacts)
        : undefined;
    const { digest: made, size: madeSize, tarDigest } = row;
    const compression = mode === 'zstd' ? mode : 'gzip';
    return { digest: made, size: madeSize, diffId: tarDigest, compression, annotations };
  };
}

function tooBusy(): Fault {
  return new Fault('unavailable', 'waits for too many layers of other images: try again later', {
    phase: 'limit',
    limit: 'layers of base images compressed at once',
    retryAfterSeconds: 60,
  });
}
