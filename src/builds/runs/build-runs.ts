import { setTimeout as sleep } from 'node:timers/promises';
import { maskAddresses } from '../../buildkit/index.ts';
import { Fault, isDiskFull, isStorageLost } from '../../foundation/fault.ts';
import type { Permit } from '../../foundation/semaphore.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import type { Logger } from '../../foundation/telemetry/index.ts';
import type { SealedGrant } from '../../platform/index.ts';
import type { BuildOutcome, BuildRow, BuildStore } from '../../storage/rows/index.ts';
import { traced } from '../../tracing/traces.ts';
import {
  createPermits,
  lostSecrets,
  type Permits,
  type Sharer,
  type Shares,
  startTimeLimit,
  type TimeLimits,
} from '../build-limits.ts';
import type { BuildCaller, Requester, Undo } from '../build-request.ts';
import type { Builders } from '../builder/builders.ts';
import { domainOf } from '../domain.ts';
import { type KeepTimes, keepMs } from '../keep-times.ts';
import type { BuildLogs, LogWriter } from '../logs/build-logs.ts';
import {
  type BuildPlan,
  needsBuilder,
  needsSecrets,
  pullName,
  recipeIn,
} from '../plan/build-plan.ts';
import type { BuildRun, Solve } from '../solve/build-run.ts';
import type { MessagesOf } from './build-messages.ts';
import {
  type BuildDurations,
  type BuildResult,
  countBuild,
  countSteps,
  failureText,
  isOwnFailure,
  reasonOf,
  resultOf,
} from './build-outcomes.ts';
import { withBuildRetries } from './build-retries.ts';

/** A queued or running build. */
export interface ActiveBuild {
  readonly row: BuildRow;
  /** The callers who wait for it. */
  readonly callers: ReadonlyMap<string, Requester>;
  /** False while it waits in the queue. */
  readonly isStarted: boolean;
  /** True if it waits among the builds of users, which go first. */
  readonly isOfUser: boolean;
  /** Resolves when the packages of its image are known, and at its end. */
  readonly solved: Promise<void>;
  /** Resolves when the build has ended, or is left to the next process. */
  readonly done: Promise<void>;
  /** Adds a caller. The build of an anonymous caller that a user waits for takes the place of a build of this user. */
  join(caller: Pick<BuildCaller, 'owner' | 'isTrusted' | 'grant'>): void;
  /** Removes a caller. */
  leave(caller: Requester): void;
  /** Ends the build; the reason becomes its failure. */
  stop(reason: Error): void;
}

/** Options for beginning a build. */
export interface BeginOptions extends Pick<BuildRun, 'secrets' | 'shown'> {
  /** First text in its log. */
  readonly firstWords?: string;
  /** Called when the build fails because of the service itself. */
  readonly undo?: Undo;
}

/** The unfinished builds of this process. */
export interface BuildRuns {
  /** By id. */
  readonly active: ReadonlyMap<string, ActiveBuild>;
  /** True once {@link close} was called. */
  readonly isClosing: boolean;
  /** Queues a build; it runs as soon as there is a permit for it. */
  begin(row: BuildRow, options?: BeginOptions): void;
  /**
   * From now on, leaves failing builds to the next process: they may fail because this process accepts no more
   * connections, such as those of their pushes.
   */
  drain(): void;
  /** Stops all builds, and leaves them to the next process. */
  close(): Promise<void>;
}

export interface BuildRunsDeps {
  readonly store: Pick<BuildStore, 'start' | 'leave' | 'finish' | 'isUnfinished'>;
  readonly logs: Pick<BuildLogs, 'begin'>;
  readonly solve: Solve;
  readonly builders: Pick<Builders, 'isComing' | 'untilThere'>;
  readonly log: Logger;
  /** Counts the builds that end. */
  readonly tally: Tally;
  /** Number of concurrent builds on builders, and of those without a builder. */
  readonly concurrent: Shares;
  readonly timeLimits: TimeLimits;
  readonly keep: KeepTimes;
  /** Returns what the access token of a caller is limited to; empty for no limit. */
  readonly limitsOf: (grant: SealedGrant | undefined) => string;
  /** Default: none. */
  readonly messagesOf?: MessagesOf;
  /** Returns the time in ms since the epoch. */
  readonly now?: () => number;
}

/** State of one run of a build. */
interface Run extends Pick<BuildRun, 'secrets' | 'shown'> {
  readonly row: BuildRow;
  readonly stop: AbortController;
  readonly writer: LogWriter;
  readonly undo: Undo;
  readonly onSolved: () => void;
  /** The caller in whose place it waits. */
  sharer: Sharer;
  /** Aborted when it waits in the place of another caller. */
  moved: AbortController;
  /** When it began to wait, in ms of the steady clock: before the start of this process if another one had it first. */
  readonly since: number;
  /** When it left the queue, in ms of the steady clock; undefined while it waits. */
  started: number | undefined;
}

/** The end of a build, and what it counts as. */
interface Ended {
  readonly outcome: BuildOutcome;
  readonly result: BuildResult;
}

const noPermit: Permit = { [Symbol.dispose]() {} };

export function createBuildRuns(deps: BuildRunsDeps): BuildRuns {
  const { store, logs, builders, log, keep, tally, now = Date.now } = deps;
  const { messagesOf = () => [] } = deps;
  const permits = createPermits(deps.concurrent);
  // A build without a builder takes seconds: it does not wait for builds that take minutes.
  const nativePermits = createPermits(deps.concurrent);
  const active = new Map<string, ActiveBuild>();
  const closing = new Error('the server is stopping');
  const closed = new AbortController();
  let isDraining = false;

  const takePermit = async (from: Permits, run: Run): Promise<Permit> => {
    const { signal } = run.stop;
    const moved = run.moved.signal;
    try {
      return await from.take(run.sharer, AbortSignal.any([signal, moved]));
    } catch (error) {
      if (signal.aborted || !moved.aborted) throw error;
      return takePermit(from, run);
    }
  };

  const takeBuilderPermit = async (run: Run, plan: BuildPlan): Promise<Permit> => {
    const { row, writer, stop } = run;
    // Waiting for BuildKit takes no permit.
    if (builders.isComing()) {
      writer.write('Waiting for BuildKit, which is being installed.\n');
      await builders.untilThere(domainOf(row, recipeIn(plan) ?? {}), stop.signal);
    }
    return takePermit(permits, run);
  };

  const noteLost = (row: BuildRow) => (err: unknown) =>
    log.warn({ buildId: row.id, err }, 'the state of the build cannot be stored: trying again');

  /** Waits for its turn, then does the build. */
  const work = async (run: Run) => {
    const { row, stop, writer, secrets, shown } = run;
    const { signal } = stop;
    const plan = JSON.parse(row.plan) as BuildPlan;
    let isOnBuilder = needsBuilder(plan);
    let permit = await (isOnBuilder
      ? takeBuilderPermit(run, plan)
      : takePermit(nativePermits, run));
    using _held = { [Symbol.dispose]: () => permit[Symbol.dispose]() };
    const requireBuilder = async () => {
      if (isOnBuilder) return;
      permit[Symbol.dispose]();
      permit = noPermit;
      permit = await takeBuilderPermit(run, plan);
      isOnBuilder = true;
    };
    const started = performance.now();
    const startedAt = now();
    await untilStored(signal, noteLost(row), () => store.start(row, startedAt));
    run.started = started;
    using _limit = startTimeLimit(stop, deps.timeLimits, row.isTrusted);
    if (needsSecrets(plan) && !secrets) throw lostSecrets();
    const onLost = (err: Fault) => {
      log.warn({ buildId: row.id, err }, 'the build starts again');
      const what = isStorageLost(err) ? 'The storage of the service does not answer' : err.message;
      writer.write(`\n${what}: trying again\n`);
    };
    const outcome = await withBuildRetries(signal, onLost, () => {
      writer.restartSteps();
      return deps.solve({
        id: row.id,
        plan,
        owner: row.owner,
        isTrusted: row.isTrusted,
        grant: (row.grant ?? undefined) as SealedGrant | undefined,
        secrets,
        shown,
        onSolved: run.onSolved,
        requireBuilder,
        log: writer,
        signal,
      });
    });
    // A step may end with a harmless failure, such as that of a cache: the log says how the whole build ended.
    writer.conclude(`\nThe build succeeded: ${pullName(plan)} is ${outcome.digest}\n`);
    return outcome;
  };

  /** Returns undefined for a build that is left to the next process. */
  const outcomeOf = async (run: Run): Promise<Ended | undefined> => {
    const { row, writer, stop } = run;
    try {
      return { outcome: await work(run), result: 'succeeded' };
    } catch (error) {
      const { aborted: isAborted, reason: abortReason } = stop.signal;
      if (abortReason === closing || (isDraining && !isAborted)) {
        writer.conclude('\nThe server stops. The build starts again with the server.\n');
        return undefined;
      }
      if (!(error instanceof Fault) && !isAborted) {
        log.error({ buildId: row.id, err: error }, 'build');
      }
      if (!isAborted && isOwnFailure(error)) run.undo();
      const cause = isAborted ? abortReason : error;
      const reason = maskAddresses(reasonOf(cause));
      writer.conclude(failureText(reason));
      return { outcome: { succeeded: false, reason }, result: resultOf(cause) };
    }
  };

  const finish = async (run: Run): Promise<void> => {
    const { row, writer } = run;
    try {
      const ended = await outcomeOf(run);
      await writer.written();
      if (!ended) {
        if (run.started !== undefined) await store.leave(row);
        return;
      }
      const stored = <T>(change: () => Promise<T>) =>
        untilStored(closed.signal, noteLost(row), change);
      // Another server may have taken the lead, and run this build again.
      if (!(await stored(() => store.isUnfinished(row.id)))) return;
      // A client that sees a finished build finds its complete log.
      await writer.share();
      const { outcome, result } = ended;
      const at = now();
      const durations = durationsOf(run);
      const keptUntil = at + keepMs(keep, row, outcome);
      const messages = messagesOf(row, outcome, at);
      await stored(() => store.finish(row.id, outcome, at, keptUntil, messages));
      writer.settle();
      countBuild(tally, row, result, durations);
      countSteps(tally, writer.lastSteps());
      log.info({ buildId: row.id, target: row.target, succeeded: outcome.succeeded }, 'built');
    } finally {
      await writer.end();
    }
  };

  return {
    active,

    get isClosing() {
      return closed.signal.aborted;
    },

    begin(row, { firstWords = '', secrets, shown, undo = () => {} } = {}) {
      const stop = new AbortController();
      const writer = logs.begin(row.id);
      if (firstWords !== '') writer.write(firstWords);
      const { promise: solved, resolve: onSolved } = Promise.withResolvers<void>();
      const run: Run = {
        row,
        stop,
        writer,
        secrets,
        shown,
        undo,
        onSolved,
        sharer: row,
        moved: new AbortController(),
        since: performance.now() - Math.max(0, now() - row.createdAt),
        started: undefined,
      };
      const attributes = { 'sluice.build.id': row.id, 'sluice.build.target': row.target };
      const done = traced('build', { attributes }, () => finish(run))
        .catch(err => log.error({ buildId: row.id, err }, 'build'))
        .finally(() => {
          active.delete(row.id);
          onSolved();
        });
      const callers = new Map<string, Requester>();
      const add = (owner: string, grant: SealedGrant | undefined): void => {
        const limits = deps.limitsOf(grant);
        callers.set(keyOf({ owner, limits }), { owner, limits });
      };
      add(row.owner, (row.grant ?? undefined) as SealedGrant | undefined);
      active.set(row.id, {
        row,
        callers,
        solved,
        done,
        stop: reason => stop.abort(reason),
        get isStarted() {
          return run.started !== undefined;
        },
        get isOfUser() {
          return run.sharer.isTrusted;
        },
        leave: caller => void callers.delete(keyOf(caller)),
        join({ owner, isTrusted, grant }) {
          add(owner, grant);
          if (run.sharer.isTrusted || !isTrusted) return;
          run.sharer = { owner, isTrusted };
          const { moved } = run;
          run.moved = new AbortController();
          moved.abort();
        },
      });
    },

    drain() {
      isDraining = true;
    },

    async close() {
      isDraining = true;
      closed.abort(closing);
      const running = [...active.values()];
      for (const { stop } of running) stop(closing);
      await Promise.all(running.map(({ done }) => done));
    },
  };
}

function keyOf({ owner, limits }: Requester): string {
  return JSON.stringify([owner, limits]);
}

const firstPauseMs = 250;
const longestPauseMs = 10_000;

/**
 * Repeats a change of the rows for as long as the database does not answer, or its disk is full. Without it, a build that
 * has ended would count as running.
 *
 * @param signal ends the attempts
 * @param onLost called after each failed attempt
 */
async function untilStored<T>(
  signal: AbortSignal,
  onLost: (error: unknown) => void,
  change: () => Promise<T>,
): Promise<T> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await change();
    } catch (error) {
      if (signal.aborted || !(isStorageLost(error) || isDiskFull(error))) throw error;
      onLost(error);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}

function durationsOf({
  since,
  started,
}: Pick<Run, 'since' | 'started'>): BuildDurations | undefined {
  if (started === undefined) return undefined;
  return { waited: started - since, ran: performance.now() - started };
}
