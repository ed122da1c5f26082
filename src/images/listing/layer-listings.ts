import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Descriptor } from '../../oci/index.ts';
import type { ByteSource } from '../../storage/content/byte-source.ts';
import { type ImageWaste, imageWasteSchema } from './comparing/image-waste.ts';
import type { ListingFiles } from './listing-files.ts';
import {
  ImageTime,
  LayerTime,
  type ListingLimits,
  mostComparedLayers,
  usualListingLimits,
} from './listing-limits.ts';
import { runListing } from './reading/listing-thread.ts';
import { DamagedListing } from './records/byte-codec.ts';
import { createOpenTree, type OpenedTree } from './records/opened-tree.ts';

/** A layer that may be read. */
export interface ReadableLayer {
  readonly descriptor: Pick<Descriptor, 'digest' | 'size'>;
  /** Where it comes from, such as a registry host: a listing is shown only for the place that it was made from. */
  readonly place: string;
  /** Why it cannot be read; undefined if it can. */
  readonly problem: string | undefined;
  open(signal: AbortSignal): Promise<ByteSource>;
}

/** A query about one layer of an image. Its caller has the right to pull all of the layers. */
export interface ListingQuery {
  /** The lowest layer first. */
  readonly layers: readonly ReadableLayer[];
  /** Number of the layer, counted from 0. */
  readonly at: number;
  /** Whose failures are remembered together. */
  readonly accessKey: string;
  /** Who takes turns with other callers. */
  readonly caller: string;
}

/** What is known about a layer by now. */
export interface LayerLook extends AsyncDisposable {
  readonly tree: OpenedTree | undefined;
  /** True if the tree says what the layer changes. */
  readonly isCompared: boolean;
  readonly waste: ImageWaste | undefined;
  /** The work that is under way; undefined if there is none. */
  readonly progress: ListingProgress | undefined;
  /** Why the rest is missing. */
  readonly failure: string | undefined;
}

export interface ListingProgress {
  readonly isWaiting: boolean;
  /** Number of the layer that is read now, counted from 0; undefined while layers are compared. */
  readonly layer: number | undefined;
  /** Bytes of it that were read. */
  readonly bytes: number;
  readonly layersDone: number;
}

export interface LayerListings {
  /**
   * Returns what is known, and starts what is missing. All who ask share one computation.
   *
   * @param waitMs how long the caller waits for what is missing. Default: not at all
   * @param signal ends the wait, not the computation: throws its reason
   */
  look(query: ListingQuery, waitMs?: number, signal?: AbortSignal): Promise<LayerLook>;
  /** Removes what is kept about a layer, because the disk has damaged it. */
  discard(query: ListingQuery): Promise<void>;
  close(): Promise<void>;
}

export interface LayerListingsDeps {
  readonly files: ListingFiles;
  readonly log: { error(details: object, message: string): void };
  readonly limits?: ListingLimits;
}

interface Run {
  readonly time: ImageTime;
  isWaiting: boolean;
  layer: number | undefined;
  bytes: number;
  layersDone: number;
}

const runsAtOnce = 2;
const mostWaiting = 50;
const mostOfOne = 10;
const knownFailures = 2000;
// Content does not get better by itself.
const contentFailureMs = 3_600_000;
const otherFailureMs = 20_000;

export function createLayerListings({
  files,
  log,
  limits = usualListingLimits,
}: LayerListingsDeps): LayerListings {
  const runs = new Map<string, { readonly run: Run; readonly done: Promise<void> }>();
  const reading = new SingleFlight<string>();
  const failures = boundedCache<string, string>(knownFailures, { ttl: otherFailureMs });
  const queue = new Semaphore({
    limit: runsAtOnce,
    mostWaiting,
    mostWaitingPerKey: mostOfOne,
    refusal: tooManyRuns,
  });
  const openTree = createOpenTree();
  const closing = new AbortController();

  const isAwaited = () => queue.waiting > 0;

  /** Throws for an image whose files would remove each other. */
  const checkRoom = (bytes: number): void => {
    const { mostOfImage } = files;
    if (bytes > mostOfImage) throw tooManyBytes(mostOfImage);
  };

  /** Returns the path of a file; makes it if it is not here. Callers share the work. */
  const kept = async (name: string, make: () => Promise<Uint8Array>): Promise<string> => {
    const here = await files.use(name);
    if (here !== undefined) return here;
    const made = async () => {
      const bytes = await make();
      checkRoom(bytes.length);
      await files.write(name, bytes);
      const path = await files.use(name);
      if (path === undefined) throw removedMeanwhile();
      return path;
    };
    return reading.run(made, { key: name });
  };

  const entriesOf = async (layer: ReadableLayer, run: Run): Promise<string> => {
    const { digest, size } = layer.descriptor;
    // The rights to such a layer are not asked for: nothing that is kept of its digest may be shown.
    if (layer.problem !== undefined) throw problemFault(layer.problem);
    return kept(nameOf('entries', [layer]), async () => {
      if (size > limits.maxBytes) throw problemFault(`It has more than ${limits.maxBytes} bytes.`);
      run.bytes = 0;
      using time = new LayerTime(size, limits, () => run.bytes, isAwaited);
      const signal = AbortSignal.any([closing.signal, time.signal]);
      try {
        return await runListing(
          { kind: 'entries', digest, size, limits },
          {
            signal,
            source: await layer.open(signal),
            onBytes: bytes => {
              run.bytes = bytes;
            },
          },
        );
      } catch (error) {
        throw time.signal.aborted ? time.signal.reason : error;
      }
    });
  };

  const compare = async (
    kind: 'tree' | 'waste',
    layers: readonly ReadableLayer[],
    run: Run,
  ): Promise<void> => {
    const name = nameOf(kind, layers);
    // A file of an earlier layer may have been removed or damaged.
    for (let tried = 1; ; tried += 1) {
      const paths: string[] = [];
      let taken = 0;
      for (const [at, layer] of layers.entries()) {
        if (at > 0) run.time.check();
        const isHere =
          layer.problem === undefined &&
          (await files.use(nameOf('entries', [layer]))) !== undefined;
        if (!isHere) Object.assign(run, { layer: layers.length === 1 ? run.layer : at, bytes: 0 });
        const path = await inLayer(at, layers.length, entriesOf(layer, run));
        if (!isHere) run.layersDone += 1;
        paths.push(path);
        taken += await sizeOf(path);
        checkRoom(taken);
      }
      run.layer = undefined;
      const late = AbortSignal.timeout(limits.maxMs);
      try {
        const signal = AbortSignal.any([closing.signal, late]);
        await kept(name, () =>
          runListing({ kind, layers: paths, maxEntries: limits.maxEntries }, { signal }),
        );
        return;
      } catch (error) {
        if (late.aborted) throw problemFault('The layers cannot be compared in time.');
        if (!isLost(error) || tried > 1) throw error;
        for (const layer of layers) await files.remove(nameOf('entries', [layer]));
      }
    }
  };

  const work = async ({ layers, at }: ListingQuery, run: Run): Promise<void> => {
    const own = layers.slice(at, at + 1);
    run.layer = at;
    await compare('tree', own, run);
    run.layersDone = await countKept(layers);
    const total = layers.reduce((sum, { descriptor }) => sum + descriptor.size, 0);
    if (total > limits.maxBytes || layers.length > mostComparedLayers) {
      throw new Fault('too-large', 'The image is too large: its layers are not compared.', {
        phase: 'layer',
      });
    }
    await compare('tree', layers.slice(0, at + 1), run);
    await compare('waste', layers, run);
  };

  const countKept = async (layers: readonly ReadableLayer[]): Promise<number> => {
    let count = 0;
    for (const layer of layers) if (await files.use(nameOf('entries', [layer]))) count += 1;
    return count;
  };

  const start = (key: string, failureKey: string, query: ListingQuery): Run => {
    const running = runs.get(key);
    if (running) {
      running.run.time.look();
      return running.run;
    }
    const time = new ImageTime(limits, isAwaited);
    const run: Run = { time, isWaiting: true, layer: query.at, bytes: 0, layersDone: 0 };
    const done = queue
      .run(
        async () => {
          closing.signal.throwIfAborted();
          time.begin();
          run.isWaiting = false;
          await work(query, run);
        },
        { key: query.caller },
      )
      .catch(error => {
        if (closing.signal.aborted) return;
        const isContent = error instanceof Fault && error.phase === 'layer';
        if (!(error instanceof Fault)) log.error({ err: error }, 'a layer cannot be listed');
        failures.set(failureKey, sentenceOf(error), {
          ttl: isContent ? contentFailureMs : otherFailureMs,
        });
      })
      .finally(() => runs.delete(key));
    runs.set(key, { run, done });
    return run;
  };

  const openKept = async (layers: readonly ReadableLayer[]): Promise<OpenedTree | undefined> => {
    const name = nameOf('tree', layers);
    const path = await files.use(name);
    if (path === undefined) return undefined;
    try {
      return await openTree(path);
    } catch (error) {
      if (!isLost(error)) throw error;
      await files.remove(name);
      return undefined;
    }
  };

  const wasteOf = async (layers: readonly ReadableLayer[]): Promise<ImageWaste | undefined> => {
    const name = nameOf('waste', layers);
    const bytes = await files.read(name);
    const waste = bytes && readWaste(bytes);
    if (bytes && !waste) await files.remove(name);
    return waste;
  };

  const lookNow = async (query: ListingQuery): Promise<LayerLook> => {
    const { layers, at, accessKey } = query;
    const isReadable = (some: readonly ReadableLayer[]) =>
      some.every(({ problem }) => problem === undefined);
    const [below, own] = [layers.slice(0, at + 1), layers.slice(at, at + 1)];
    const waste = isReadable(layers) ? await wasteOf(layers) : undefined;
    const compared = isReadable(below) ? await openKept(below) : undefined;
    const tree = compared ?? (isReadable(own) ? await openKept(own) : undefined);
    const key = keyOf(query);
    const failureKey = `${key} ${accessKey}`;
    const failure = failures.get(failureKey);
    const isWhole = waste !== undefined && compared !== undefined;
    const run = isWhole || failure !== undefined ? undefined : start(key, failureKey, query);
    return {
      tree,
      waste,
      failure: isWhole ? undefined : failure,
      isCompared: compared !== undefined,
      progress: run && progressOf(run),
      async [Symbol.asyncDispose]() {
        await tree?.[Symbol.asyncDispose]();
      },
    };
  };

  return {
    async look(query, waitMs = 0, signal) {
      const look = await lookNow(query);
      const run = runs.get(keyOf(query));
      if (!look.progress || !run || waitMs === 0) return look;
      await look[Symbol.asyncDispose]();
      await Promise.race([run.done, sleep(waitMs, undefined, { ref: false, signal })]);
      return lookNow(query);
    },

    async discard({ layers, at }) {
      await files.remove(nameOf('tree', layers.slice(0, at + 1)));
      await files.remove(nameOf('tree', layers.slice(at, at + 1)));
    },

    async close() {
      closing.abort(
        new Fault('unavailable', 'The server is stopping: reload the page in a moment', {
          phase: 'layer',
        }),
      );
      await Promise.allSettled([...runs.values()].map(({ done }) => done));
    },
  };
}

function keyOf({ layers, at }: Pick<ListingQuery, 'layers' | 'at'>): string {
  return `${nameOf('waste', layers)} ${at}`;
}

function progressOf({ isWaiting, layer, bytes, layersDone }: Run): ListingProgress {
  return { isWaiting, layer, bytes, layersDone };
}

/** Returns the name of the file about some layers; the order of the layers matters. */
function nameOf(kind: 'entries' | 'tree' | 'waste', layers: readonly ReadableLayer[]): string {
  const text = layers.map(({ place, descriptor }) => `${place} ${descriptor.digest}`).join('\n');
  return `${createHash('sha256').update(text).digest('hex')}.${kind}`;
}

/** Returns undefined for a file that the disk has damaged. */
function readWaste(bytes: Buffer): ImageWaste | undefined {
  try {
    return imageWasteSchema.parse(JSON.parse(bytes.toString()));
  } catch {
    return undefined;
  }
}

/** Adds the number of the layer to a failure of one of several. */
async function inLayer<T>(at: number, count: number, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof Fault) || count === 1) throw error;
    throw error.withMessage(`Layer ${at + 1} of the image is not compared. ${error.message}`);
  }
}

function isLost(error: unknown): boolean {
  if (error instanceof DamagedListing || error instanceof SyntaxError) return true;
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function sentenceOf(error: unknown): string {
  if (error instanceof Fault) return error.message;
  return 'The layer cannot be listed because of an error of this server: its log has the reason';
}

/** Returns the bytes of a file; 0 for one that was removed, which its reader finds out. */
async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.size ?? 0;
}

function tooManyBytes(most: number): Fault {
  return new Fault(
    'too-large',
    `The lists of files of the image take more than ${most} bytes, half of what the server keeps of all images: its layers are not compared`,
    { phase: 'layer' },
  );
}

function problemFault(problem: string): Fault {
  return new Fault('bad-request', problem, { phase: 'layer' });
}

function removedMeanwhile(): Fault {
  return new Fault('unavailable', 'The listing was removed while it was made: reload the page', {
    phase: 'store',
  });
}

function tooManyRuns(): Fault {
  return new Fault(
    'unavailable',
    'The server is reading many layers: reload the page in a minute',
    {
      phase: 'limit',
      retryAfterSeconds: 60,
    },
  );
}
