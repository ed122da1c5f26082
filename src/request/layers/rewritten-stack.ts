import { pipeline, Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { TarError, tarBlockSize } from '../../archives/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import { digestOf } from '../../oci/digest.ts';
import { type ByteSource, copiesOf } from '../../storage/content/byte-source.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { FetchedLayerStore } from '../../storage/rows/index.ts';
import { sourceOfStream } from '../../upstream/index.ts';
import { type Packing, unpackers } from './layer-check.ts';
import { removedMeanwhile, unreadable } from './layer-faults.ts';
import { createLayerFetches } from './layer-fetches.ts';
import type { Intake, LayerLimits, Measured } from './one-intake.ts';
import { findHidden, HiddenFiles, type LayerFindings, withoutHidden } from './whiteout-entries.ts';

interface StackRewriterDeps {
  readonly content: Pick<ContentStore, 'size' | 'open'>;
  readonly fetched: FetchedLayerStore;
  readonly limits: Pick<LayerLimits, 'maxTarBytes' | 'fetchTimeout'>;
  readonly ingest: (source: ByteSource, name: string, caller: Intake) => Promise<Measured>;
}

/** A layer as its registry has sent it. */
type Packed = InjectedLayer & { readonly packing: Packing };

const chunkSize = 128 * 1024;
// Each occupies a thread of the pool that also reads and writes files.
const atOnce = 2;
const mostWaiting = 50;
const waitMs = 60_000;

/**
 * Writes the layers of an image again, without the files that its upper layers delete and without the whiteouts that say so: they
 * would delete files of the image that the layers are added to. Layers that have neither stay as they are.
 */
export function createStackRewriter({ content, fetched, limits, ingest }: StackRewriterDeps) {
  const flights = createLayerFetches<readonly Measured[]>({ timeoutMs: limits.fetchTimeout });
  const turns = new Semaphore({
    // Callers without a login do not delay those with one.
    limit: atOnce,
    perKey: 1,
    low: { limit: 1, passedBy: 1 },
    mostWaiting,
    refusal: tooBusy,
  });

  /** Yields the bytes of the tar file in whole blocks. */
  async function* unpacked({ gzipDigest: digest, packing }: Packed, signal: AbortSignal) {
    const size = await content.size(digest);
    if (size === undefined) throw removedMeanwhile(digest);
    const packed = Readable.from(copiesOf(content.open(digest, 0, size - 1)));
    const streams = unpackers(packing, chunkSize);
    const tar = streams.at(-1) as Readable;
    // The reader of the last stream receives the error.
    pipeline([packed, ...streams], () => {});
    try {
      let rest = Buffer.alloc(0);
      for await (const chunk of tar as AsyncIterable<Buffer>) {
        signal.throwIfAborted();
        const bytes = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
        const whole = bytes.length - (bytes.length % tarBlockSize);
        rest = Buffer.from(bytes.subarray(whole));
        if (whole > 0) yield bytes.subarray(0, whole);
        await pauseTurn();
      }
    } finally {
      packed.destroy();
      tar.destroy();
    }
  }

  const rewriteLayer = async (
    layer: Packed,
    hidden: HiddenFiles,
    name: string,
    caller: Intake & { readonly signal: AbortSignal },
  ): Promise<{ readonly layer: Measured; readonly findings: LayerFindings }> => {
    const { signal } = caller;
    const { packing, ...measured } = layer;
    const finding = findHidden(hidden);
    for await (const bytes of unpacked(layer, signal)) finding.write(bytes);
    const findings = finding.end();
    if (!findings.isChanged && packing === 'gzip') return { layer: measured, findings };
    const writing = withoutHidden(hidden, findings);
    const tar = Readable.from(
      (async function* () {
        for await (const bytes of unpacked(layer, signal)) yield writing.write(bytes);
        yield writing.end();
      })(),
      { objectMode: false },
    );
    const gzip = tar.pipe(createGzip({ chunkSize }));
    tar.on('error', error => gzip.destroy(error));
    // It may fail before its reader begins, which then receives the error.
    gzip.on('error', () => {});
    try {
      return { layer: await ingest(sourceOfStream(gzip), name, caller), findings };
    } finally {
      tar.destroy();
      gzip.destroy();
    }
  };

  const rewriteAll = async (
    layers: readonly Packed[],
    top: number,
    caller: Intake & { readonly signal: AbortSignal },
  ): Promise<readonly Measured[]> => {
    const hidden = new HiddenFiles();
    const written: Measured[] = layers.slice(top + 1);
    for (const layer of layers.slice(0, top + 1).toReversed()) {
      const name = layer.gzipDigest;
      try {
        const done = await rewriteLayer(layer, hidden, name, caller);
        written.unshift(done.layer);
        for (const one of done.findings.whiteouts) hidden.add(one);
      } catch (error) {
        throw error instanceof TarError ? unreadable(name, error) : error;
      }
    }
    return written.map(({ gzipDigest, gzipSize, tarDigest }) => ({
      gzipDigest,
      gzipSize,
      tarDigest,
    }));
  };

  return {
    /** Returns the layers if they were written before; the caller must claim them. */
    async find(layers: readonly InjectedLayer[]): Promise<readonly InjectedLayer[] | undefined> {
      const text = await fetched.find(keyOf(layers), Date.now());
      return text === undefined ? undefined : merged(layers, JSON.parse(text));
    },

    /**
     * Returns the layers without what the whiteouts in them delete. Throws a {@link Fault}.
     *
     * @param layers the lowest first; all of them are here
     * @param top position of the highest layer with a whiteout, or that is not in gzip
     */
    async rewrite(
      layers: readonly Packed[],
      top: number,
      caller: Intake,
    ): Promise<readonly InjectedLayer[]> {
      const place = keyOf(layers);
      const key = JSON.stringify([caller.user, caller.network, place]);
      const room = { left: limits.maxTarBytes, limit: limits.maxTarBytes };
      const written = await flights(key, caller, signal =>
        turns.run(
          async () => {
            const done = await rewriteAll(layers, top, { ...caller, signal, unpacked: room });
            fetched.put(place, JSON.stringify(done), Date.now());
            return done;
          },
          {
            key: caller.user ?? caller.network ?? '',
            isLow: caller.user === undefined,
            waitMs,
            signal,
          },
        ),
      ).catch(error => {
        // Several requests may wait: all of them include these bytes, each under its own name.
        const isOfLayer = error instanceof Fault && error.message.startsWith('sha256:');
        const message = () =>
          `'containerIncludes': ${layers[0]?.from ?? ''}, layer ${error.message}`;
        throw isOfLayer ? error.withMessage(message()) : error;
      });
      return merged(
        layers.map(({ packing: _, ...layer }) => layer),
        written,
      );
    },
  };
}

/** The bytes of the layers decide what is written, and their digests name them. */
function keyOf(layers: readonly InjectedLayer[]): string {
  const digests = layers.map(({ gzipDigest }) => gzipDigest);
  return `rewritten:${digestOf(Buffer.from(JSON.stringify(digests)))}`;
}

function merged(
  layers: readonly InjectedLayer[],
  written: readonly Measured[],
): readonly InjectedLayer[] {
  return layers.map((layer, at) => {
    const { annotations: _, ...others } = layer;
    const one = written[at];
    // They describe the bytes of the layer.
    return one?.gzipDigest === layer.gzipDigest ? layer : { ...others, ...one };
  });
}

function tooBusy(): Fault {
  return new Fault('unavailable', 'Too many included images are being processed: try again later', {
    phase: 'limit',
    limit: 'included images processed at once',
    retryAfterSeconds: 30,
  });
}
