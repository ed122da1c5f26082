import { availableParallelism } from 'node:os';
import { Fault } from '../../../foundation/fault.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import { isOutOfMemory, Thread } from '../../../foundation/threads.ts';
import { unlessAborted } from '../../../foundation/work.ts';
import type { Digest } from '../../../oci/digest.ts';
import { LargeArchive } from '../../archives/archive-checks.ts';
import { endIdleThreads, makeRoom, noteIdle } from '../../threads/one-task.ts';
import { inRoom, threadNeeds } from '../../threads/thread-room.ts';
import type { LayerSubject } from '../layer-key.ts';
import { openRing, type PieceRing, ringBytes, takePieces } from './piece-ring.ts';

/** Threads that make layers. They end when they have nothing to do. */
export interface LayerThreads<O extends AnyOrder = LayerOrder> {
  /**
   * Makes a layer on a thread. `take` receives the bytes of the layer piece by piece: views that are valid until it
   * resolves, when the next call comes. Throws a {@link Fault} for a package that cannot be installed, the error of `take`,
   * and the reason of the signal.
   *
   * @param written shared memory that receives how far the layer of a package is, as in `PackageProgress`
   */
  run(
    order: O,
    take: (piece: Uint8Array) => Promise<void>,
    signal: AbortSignal,
    written?: Float64Array,
  ): Promise<MadeLayer>;
  /** Ends all threads; layers in progress are lost. */
  close(): Promise<void>;
}

/** Work for a thread that makes layers. */
export type LayerOrder = PackageOrder | SharedOrder | TarOrder | FormOrder | BaseOrder;

/** What {@link LayerThreads} can be made for. */
export type AnyOrder = InstallOrder | SharedOrder | TarOrder | FormOrder | BaseOrder;

/** Installs a package of any kind and packs its files. */
export interface InstallOrder {
  readonly kind: string;
  readonly subject: { readonly package: { readonly fileName: string } };
  /** The file with the archive. Its digest was verified. */
  readonly archive: string;
  readonly limits: UnpackLimits;
  /** True while other threads work: a package that needs much memory is refused. */
  readonly isShared?: boolean;
}

/** Installs a package of Conda. */
export interface PackageOrder extends InstallOrder {
  readonly kind: 'package';
  readonly subject: LayerSubject;
}

/** Bounds of one package. */
export interface UnpackLimits {
  readonly maxUnpackedBytes: number;
  readonly maxFiles: number;
}

/** Puts layers together. */
export interface SharedOrder {
  readonly kind: 'shared';
  readonly layers: readonly LayerFile[];
}

/** The file of a layer. */
interface LayerFile {
  readonly path: string;
  readonly size: number;
}

/** Writes a layer in another form. */
export interface FormOrder {
  readonly kind: 'form';
  readonly layer: LayerFile;
  readonly mode: 'gzip' | 'zstd' | 'estargz';
  /** 0 to 9; for zstd 0 to 22 */
  readonly level: number;
}

/** Writes a layer of a base image in another form. Its digest was verified. */
export interface BaseOrder extends Omit<FormOrder, 'kind'> {
  readonly kind: 'base';
  /** True for one whose type says that it is not compressed. */
  readonly isPlain: boolean;
  /** Digest of its tar file. */
  readonly diffId: Digest;
  /** The most that its tar file may have. */
  readonly maxBytes: number;
}

/** Packs tar entries. */
interface TarOrder {
  readonly kind: 'tar';
  /** Without the end of a tar file. */
  readonly tar: Uint8Array;
}

export interface MadeLayer {
  readonly tarDigest: Digest;
  /** Bytes of the tar file. */
  readonly tarBytes: number;
  /** For a layer of one package, and for one in the eStargz form. */
  readonly about?: LayerAbout | undefined;
}

/** What is kept about a layer. */
interface LayerAbout {
  /** JSON of `PackageFacts` or of `EstargzFacts`. */
  readonly facts: string;
  /** For a layer of one package. */
  readonly pathHashes?: Uint8Array;
  /** For a layer of one package. */
  readonly paths?: Uint8Array;
}

/** What a thread is started with for each order. */
export interface OrderMessage<O extends AnyOrder = LayerOrder> {
  readonly order: O;
  readonly pieces: PieceRing;
  /** Receives how far the layer of a package is, as in `PackageProgress`. */
  readonly written?: Float64Array | undefined;
}

/** What a thread answers: any number of pieces of the layer, then one of the others. */
export type LayerResponse =
  /** Bytes of the next piece in the ring. */
  | { readonly piece: number }
  | { readonly made: MadeLayer }
  | { readonly fault: Pick<Fault, 'kind' | 'phase' | 'message'> }
  /** The package needs much memory: it must be the only one. */
  | { readonly isLarge: true }
  | { readonly error: unknown };

// Each needs about 70 MiB: a server with more memory gets more by its setting.
const usualThreads = 2;
const idleMs = 10_000;
// The files of a package do not pass through the heap; its lists of paths do.
const heapMb = 256;
// The young generation is collected often, and with it the buffers that the files pass through.
const youngHeapMb = 2;
const ended = 'the thread that makes layers ended';

type RunParameters = readonly [
  take: (piece: Uint8Array) => Promise<void>,
  signal: AbortSignal,
  written?: Float64Array | undefined,
];

interface LayerThread {
  readonly thread: Thread<LayerResponse>;
  readonly bytes: Uint8Array;
  /** Settles when nothing reads from the bytes any more. Never rejects. */
  reading: Promise<void>;
}

// Of threads that have ended: shared memory is freed late, because the collector does not count it. Threads of all kinds share them.
const rings: Uint8Array[] = [];

/**
 * @param size number of threads. Default: the number of processors, at most 2
 * @param file what they run: a file that calls `serveLayers`. Default: what makes layers of Conda packages
 */
export function createLayerThreads<O extends AnyOrder = LayerOrder>(
  size: number = Math.min(usualThreads, availableParallelism()),
  file: URL = new URL('./layer-worker.ts', import.meta.url),
): LayerThreads<O> {
  const turns = new Semaphore({ limit: size });
  // An operator who sets more threads gives them more memory.
  const need = Math.floor(threadNeeds.layer * Math.min(1, usualThreads / size));
  const alone = new Semaphore({ limit: 1 });
  /** What to call when an idle thread works again, or ends. */
  const idle = new Map<LayerThread, () => void>();
  const all = new Set<LayerThread>();
  let isClosed = false;

  const start = (): LayerThread => {
    const thread = new Thread<LayerResponse>(file, { heapMb, youngHeapMb, ended });
    const bytes = rings.pop() ?? new Uint8Array(new SharedArrayBuffer(ringBytes));
    const own = { thread, bytes, reading: Promise.resolve() };
    all.add(own);
    return own;
  };
  const end = async (own: LayerThread): Promise<void> => {
    idle.get(own)?.();
    const isFirst = all.delete(own);
    // It may be at work still, or may wait for the pieces to be taken.
    await own.thread.end();
    if (isFirst) void own.reading.then(() => rings.push(own.bytes));
  };
  const takeIdle = (): LayerThread | undefined => {
    const own = [...idle.keys()].at(-1);
    if (!own) return undefined;
    idle.get(own)?.();
    if (!own.thread.isLost) return own;
    void end(own);
    return takeIdle();
  };
  const rest = (own: LayerThread): void => {
    const timer = setTimeout(() => void end(own), idleMs).unref();
    const forget = noteIdle(() => end(own));
    idle.set(own, () => {
      clearTimeout(timer);
      forget();
      idle.delete(own);
    });
  };

  const runOn = async (
    own: LayerThread,
    order: AnyOrder,
    ...[take, signal, written]: RunParameters
  ): Promise<MadeLayer> => {
    const pieces = openRing(own.bytes);
    const receive = takePieces(pieces, take);
    own.thread.ask({ order, pieces, written } satisfies OrderMessage<AnyOrder>);
    for (;;) {
      const response = await own.thread.next(signal);
      if ('made' in response) return response.made;
      if (!('piece' in response)) throw errorOf(response);
      const taking = receive(response.piece);
      own.reading = taking.catch(() => {});
      await unlessAborted(taking, signal);
    }
  };

  const runOne = async (order: AnyOrder, ...rules: RunParameters): Promise<MadeLayer> => {
    const [, signal] = rules;
    if (idle.size === 0) await makeRoom();
    signal.throwIfAborted();
    if (isClosed) throw new Error(ended);
    const own = takeIdle() ?? start();
    try {
      const made = await runOn(own, order, ...rules);
      rest(own);
      return made;
    } catch (error) {
      await end(own);
      throw isOutOfMemory(error) ? tooLarge(order, error) : error;
    }
  };
  /** Runs while no other thread works, the solver's neither, on a thread that ends, and gives back its memory. */
  const runAlone = (order: AnyOrder, ...rest: RunParameters): Promise<MadeLayer> =>
    alone.run(() =>
      withTurns(size, () =>
        inRoom(threadNeeds.large, async () => {
          await endIdleThreads();
          try {
            return await runOne(order, ...rest);
          } finally {
            await endIdleThreads();
          }
        }),
      ),
    );
  const withTurns = <T>(count: number, work: () => Promise<T>): Promise<T> =>
    count === 0 ? work() : turns.run(() => withTurns(count - 1, work));

  return {
    async run(order, ...rest) {
      const run = (one: AnyOrder) => turns.run(() => inRoom(need, () => runOne(one, ...rest)));
      if (!('subject' in order)) return run(order);
      try {
        return await run({ ...order, isShared: true });
      } catch (error) {
        if (!(error instanceof LargeArchive)) throw error;
        return runAlone(order, ...rest);
      }
    },

    async close() {
      isClosed = true;
      await Promise.all([...all].map(end));
    },
  };
}

type Failure = Exclude<LayerResponse, { piece: unknown } | { made: unknown }>;

function errorOf(response: Failure): unknown {
  if ('isLarge' in response) return new LargeArchive();
  if (!('fault' in response)) return response.error;
  const { kind, phase, message } = response.fault;
  return new Fault(kind, message, phase === undefined ? {} : { phase });
}

function tooLarge(order: AnyOrder, cause: unknown): Fault {
  if (order.kind === 'base') {
    return new Fault('bad-request', `needs more than ${heapMb} MiB of memory`, {
      phase: 'build',
      cause,
    });
  }
  const name = 'subject' in order ? order.subject.package.fileName : 'A group of packages';
  return new Fault(
    'bad-request',
    `${name} requires more than the ${heapMb} MiB of memory that a package may use while it is installed: choose another build or version, or ask the operator to set builds.conda to buildkit`,
    { phase: 'layer', cause },
  );
}
