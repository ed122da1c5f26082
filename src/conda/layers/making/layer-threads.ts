import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { Fault } from '../../../foundation/fault.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import { endThread, startThread } from '../../../foundation/work.ts';
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

type RunParameters = readonly [
  take: (piece: Uint8Array) => Promise<void>,
  signal: AbortSignal,
  written?: Float64Array | undefined,
];

interface Thread {
  readonly worker: Worker;
  readonly bytes: Uint8Array;
  /** Settles when nothing reads from the bytes any more. Never rejects. */
  reading: Promise<void>;
}

// Of threads that have ended: shared memory is freed late, because the collector does not count it. Threads of all kinds share them.
const rings: Uint8Array[] = [];

interface Idle {
  readonly thread: Thread;
  readonly timer: NodeJS.Timeout;
  readonly forget: () => void;
}

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
  const idle: Idle[] = [];
  const all = new Set<Worker>();
  let isClosed = false;

  const start = (): Thread => {
    const worker = startThread(file, {
      resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: youngHeapMb },
    });
    all.add(worker);
    // A thread that fails while it is idle is not used again.
    worker.on('error', () => {});
    worker.on('exit', () => {
      all.delete(worker);
      takeOut(idle.findIndex(one => one.thread.worker === worker));
    });
    const bytes = rings.pop() ?? new Uint8Array(new SharedArrayBuffer(ringBytes));
    return { worker, bytes, reading: Promise.resolve() };
  };
  const takeOut = (at: number): Thread | undefined => {
    const [found] = at < 0 ? [] : idle.splice(at, 1);
    if (!found) return undefined;
    clearTimeout(found.timer);
    found.forget();
    return found.thread;
  };
  const takeIdle = (): Thread | undefined => {
    const thread = takeOut(idle.length - 1);
    thread?.worker.ref();
    return thread;
  };
  const rest = (thread: Thread): void => {
    const end = async () => {
      if (!takeOut(idle.findIndex(one => one.thread === thread))) return;
      await endThread(thread.worker);
      rings.push(thread.bytes);
    };
    const timer = setTimeout(() => void end(), idleMs).unref();
    thread.worker.unref();
    idle.push({ thread, timer, forget: noteIdle(end) });
  };

  const runOn = async (
    thread: Thread,
    order: AnyOrder,
    take: (piece: Uint8Array) => Promise<void>,
    signal: AbortSignal,
    written: Float64Array | undefined,
  ): Promise<MadeLayer> => {
    const { worker, bytes } = thread;
    const pieces = openRing(bytes);
    const receive = takePieces(pieces, take);
    const { promise, resolve, reject } = Promise.withResolvers<MadeLayer>();
    let writing: Promise<void> = Promise.resolve();
    const onResponse = (response: LayerResponse): void => {
      if ('piece' in response) {
        writing = receive(response.piece);
        writing.catch(reject);
      } else if ('made' in response) writing.then(() => resolve(response.made), reject);
      else reject(errorOf(response));
    };
    const failed = (error: unknown) => reject(lostThread(error, order));
    const exited = () => reject(lostThread(undefined, order));
    const abort = () => reject(signal.reason);
    worker.on('message', onResponse).on('error', failed).on('exit', exited);
    signal.addEventListener('abort', abort, { once: true });
    try {
      worker.postMessage({ order, pieces, written } satisfies OrderMessage<AnyOrder>);
      return await promise;
    } finally {
      worker.off('message', onResponse).off('error', failed).off('exit', exited);
      signal.removeEventListener('abort', abort);
      thread.reading = writing.catch(() => {});
    }
  };

  const runOne = async (
    order: AnyOrder,
    ...[take, signal, written]: RunParameters
  ): Promise<MadeLayer> => {
    if (idle.length === 0) await makeRoom();
    signal.throwIfAborted();
    if (isClosed) throw lostThread(undefined, order);
    const thread = takeIdle() ?? start();
    try {
      const made = await runOn(thread, order, take, signal, written);
      rest(thread);
      return made;
    } catch (error) {
      // It may be at work still, or may wait for the pieces to be taken.
      await endThread(thread.worker);
      void thread.reading.then(() => rings.push(thread.bytes));
      throw error;
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
      await Promise.all([...all].map(endThread));
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

function lostThread(cause: unknown, order: AnyOrder): unknown {
  const isOutOfMemory =
    cause instanceof Error && 'code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY';
  if (isOutOfMemory) {
    if (order.kind === 'base') return tooLargeBase(cause);
    const name = 'subject' in order ? order.subject.package.fileName : 'A group of packages';
    return new Fault(
      'bad-request',
      `${name} requires more than the ${heapMb} MiB of memory that a package may use while it is installed: choose another build or version, or ask the operator to set builds.conda to buildkit`,
      { phase: 'layer', cause },
    );
  }
  return new Error('the thread that makes layers ended', { cause });
}

function tooLargeBase(cause: unknown): Fault {
  return new Fault('bad-request', `needs more than ${heapMb} MiB of memory`, {
    phase: 'build',
    cause,
  });
}
