import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { unlessAborted } from '../../foundation/work.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import { ChannelFault } from '../channels/channel-fault.ts';
import type { CondaPackage } from '../conda-package.ts';
import { RepodataDownload } from '../repodata/repodata-progress.ts';
import type { OpenedRepodata, RepodataStore } from '../repodata/repodata-store.ts';
import type { ShardStore } from '../repodata/shard-store.ts';
import { makeRoom, noteIdle } from '../threads/one-task.ts';
import { inRoom, threadNeeds } from '../threads/thread-room.ts';
import type { CondaSolver, SolveOptions, SolveRequest } from './conda-solver.ts';
import { faultOfUnsolved } from './explanation.ts';
import { isVirtual, lockedRecord, lockingSpec, virtualRecord } from './locked-records.ts';
import { type SolveOrder, SolveThread, Unsolved } from './solve-thread.ts';
import { solverSpec, withoutChannels } from './solver-spec.ts';
import { openSubdirs, type WantedChannel, wantedChannels } from './wanted-channels.ts';

export interface CondaSolverDeps {
  readonly channels: ChannelAccess;
  readonly repodata: RepodataStore;
  readonly shards: ShardStore;
  readonly limits: SolveLimits;
}

export interface SolveLimits {
  /** For one solve, without the wait for others (ms). */
  readonly timeout: number;
  /** Memory of the solver, bytes. */
  readonly memory: number;
  readonly maxWaiting: number;
}

/** A thread that is not used ends, and gives its memory back. */
const idleMs = 20_000;
/** A thread ends after a solve when it has taken more memory than this: it never gives any back. */
const mostKeptBytes = 64 * 1024 * 1024;
const retrySeconds = 30;
/** A disk that damages data each time is not asked for ever. */
const damagesTaken = 3;

export function createCondaSolver({
  channels,
  repodata,
  shards,
  limits,
}: CondaSolverDeps): CondaSolver {
  const queue = new Semaphore({ limit: 1, mostWaiting: limits.maxWaiting, refusal });
  // One anonymous caller at a time enters the queue: the others keep no user waiting, and half of it is for users.
  const anonymous = new Semaphore({
    limit: 1,
    mostWaiting: Math.ceil(limits.maxWaiting / 2),
    refusal,
  });
  let thread: SolveThread | undefined;
  let idle: NodeJS.Timeout | undefined;
  let forgetIdle = () => {};
  let lastId = 0;
  let isClosed = false;

  const end = async (reason: string): Promise<void> => {
    const ending = thread;
    thread = undefined;
    work();
    await ending?.stop(new Fault('unavailable', reason, { phase: 'build' })).catch(() => {});
  };
  /** The thread is not idle any more. */
  const work = (): void => {
    clearTimeout(idle);
    forgetIdle();
  };
  const rest = (): void => {
    work();
    if (thread === undefined) return;
    const give = () => end('The solver is idle');
    forgetIdle = noteIdle(give);
    idle = setTimeout(give, idleMs).unref();
  };

  /** Solves on the thread, which ends when it takes too long or when the caller leaves. */
  const solve = async (
    order: Omit<SolveOrder, 'solve'>,
    { signal, report }: Pick<SolveOptions, 'signal' | 'report'>,
  ) => {
    work();
    if (thread === undefined) await makeRoom();
    signal.throwIfAborted();
    if (isClosed) throw stopping();
    if (thread === undefined || thread.isLost)
      thread = new SolveThread({ memoryBytes: limits.memory });
    const own = thread;
    const stop = (reason: Error) => void own.stop(reason).catch(() => {});
    const timer = setTimeout(() => stop(tooSlow(limits.timeout)), limits.timeout);
    const leave = () => stop(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    lastId += 1;
    let fetched = 0;
    const progress = new RepodataDownload('shards');
    const watch = report && progress.watch(report);
    try {
      return await own.solve({ ...order, solve: lastId }, (base, hex) =>
        shards.read(base, hex, signal, bytes => {
          fetched += bytes;
          progress.received(fetched);
        }),
      );
    } finally {
      watch?.[Symbol.dispose]();
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      if (own.memoryBytes > mostKeptBytes) void end('The solver has grown');
      rest();
    }
  };

  /** Returns undefined when kept data was damaged: it is fetched again. */
  const solveRequest = async (
    request: SolveRequest,
    specs: readonly string[],
    wanted: readonly WantedChannel[],
    { signal, log, report, isAnonymous }: SolveOptions,
  ): Promise<readonly CondaPackage[] | undefined> => {
    const opened: OpenedRepodata[] = [];
    const inUse = new DisposableStack();
    const take = (one: OpenedRepodata): void => {
      // A channel may answer after another one failed.
      if (inUse.disposed) one[Symbol.dispose]();
      else opened.push(inUse.use(one));
    };
    try {
      const subdirs = await openSubdirs(repodata, wanted, { signal, log, report }, take);
      const locked = request.locked ?? [];
      const order = {
        subdirs,
        specs: [...specs.map(solverSpec), ...locked.map(lockingSpec)],
        channels: wanted.map(({ url }) => url),
        platforms: [request.subdir, 'noarch'],
        locked: [
          ...request.virtualPackages.map(one => virtualRecord(one, request.subdir)),
          ...locked.map(lockedRecord),
        ],
      };
      const inTurn = () =>
        queue.run(() => inRoom(threadNeeds.solve, () => solve(order, { signal, report })));
      const work = isAnonymous ? anonymous.run(inTurn) : inTurn();
      return sorted(await unlessAborted(work, signal), locked);
    } catch (error) {
      if (!(error instanceof Unsolved) || error.reason !== 'disk') throw error;
      log('Kept repository data is damaged and is fetched again');
      for (const one of opened) await repodata.discard(one);
      return undefined;
    } finally {
      inUse.dispose();
    }
  };

  return {
    async solve(request, options) {
      const { specs, channelOf } = withoutChannels(request.specs);
      const wanted = wantedChannels(request, channelOf, channels);
      try {
        for (let tried = 0; tried < damagesTaken; tried += 1) {
          const packages = await solveRequest(request, specs, wanted, options);
          if (packages) return packages;
        }
      } catch (error) {
        const names = wanted.map(({ name }) => name);
        throw faultOfUnsolved(error, names, limits.memory);
      }
      throw damaged();
    },
    async close() {
      isClosed = true;
      work();
      const ending = thread;
      thread = undefined;
      await ending?.stop(stopping());
    },
  };
}

function sorted(
  packages: readonly CondaPackage[],
  locked: readonly CondaPackage[],
): readonly CondaPackage[] {
  const lockedAt = new Map(locked.map(one => [one.url, one]));
  return packages
    .filter(({ name }) => !isVirtual(name))
    .map(one => {
      const { record, depends = one.depends } = lockedAt.get(one.url) ?? {};
      return { ...one, depends, record: one.record ?? record };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function refusal(): Fault {
  return new Fault(
    'unavailable',
    'Too many environments wait to be solved: try again later, or ask the operator to raise conda.solve.maxWaiting',
    {
      phase: 'limit',
      limit: 'environments that wait to be solved',
      retryAfterSeconds: retrySeconds,
    },
  );
}

function damaged(): Fault {
  return new Fault(
    'internal',
    'Kept repository data is damaged again and again: ask the operator to check the disk of the data directory',
    { phase: 'store' },
  );
}

function stopping(): Fault {
  return new Fault('unavailable', 'The server is stopping: try again in a moment', {
    phase: 'build',
  });
}

function tooSlow(ms: number): ChannelFault {
  return new ChannelFault(
    `The environment was not solved within ${Math.round(ms / 1000)} s: give versions to more packages, use fewer channels, or ask the operator to raise conda.solve.timeout`,
    undefined,
    { phase: 'limit' },
  );
}
