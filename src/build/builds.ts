import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../fault.ts';
import type { Descriptor } from '../oci/descriptor.ts';
import type { BuildOutcome, BuildRow, BuildStore } from '../store/builds.ts';
import type { Logger } from '../telemetry.ts';
import type { BuildLogs, LogWriter } from './build-logs.ts';
import type { BuildPlan } from './build-plan.ts';
import { BuilderLost } from './builders.ts';
import { createPermits } from './permits.ts';

/** What a request for a build is answered with. */
export interface BuildTicket {
  /** Undefined for an image that is there without a build of this service. */
  readonly id: string | undefined;
  /** The image was there before, or a build of it has just failed: nothing is running. */
  readonly isCached: boolean;
  /** Undefined while it runs. */
  readonly succeeded: boolean | undefined;
}

/** Does one build. What it throws is a failure; a {@link Fault}'s message is for the user. */
export type Solve = (run: BuildRun) => Promise<Extract<BuildOutcome, { succeeded: true }>>;

export interface BuildRun {
  readonly id: string;
  readonly plan: BuildPlan;
  readonly log: LogWriter;
  readonly signal: AbortSignal;
}

export interface Builds {
  /**
   * The build of a plan: one that is there or runs already, or a new one, before which `onBegin` is
   * called. Throws {@link Fault}, also what `onBegin` throws.
   */
  request(plan: BuildPlan, onBegin: () => void): Promise<BuildTicket>;
  /** Throws {@link Fault} (404). */
  get(id: string): BuildRow;
  /** The build once it is over, or as it is when the time is. Throws {@link Fault} (404). */
  settled(id: string, ms: number): Promise<BuildRow>;
  /** Ends a build that is queued or runs; false when it is over. */
  cancel(id: string): boolean;
  /** Takes up what the last process left. */
  resume(): void;
  /** Stops what runs; it is taken up again by the next process. */
  close(): Promise<void>;
}

export interface BuildsDeps {
  readonly store: BuildStore;
  readonly logs: BuildLogs;
  readonly solve: Solve;
  /** What an image name stands for now, undefined when it is not there. */
  readonly find: (target: string) => Promise<Pick<Descriptor, 'digest'> | undefined>;
  /** Throws a {@link Fault} when there is nothing to build with. */
  readonly requireBuilder: () => Promise<void>;
  readonly log: Logger;
  readonly concurrent: number;
  readonly timeLimitMs: number;
  /** How long a failure is the answer. */
  readonly retryAfterMs: number;
}

interface Active {
  readonly row: BuildRow;
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

export function createBuilds(deps: BuildsDeps): Builds {
  const { store, logs, solve, find, log } = deps;
  const permits = createPermits(deps.concurrent);
  const active = new Map<string, Active>();
  const looking = new Map<string, Promise<BuildTicket>>();
  let isClosing = false;

  const run = async (row: BuildRow, stop: AbortController): Promise<void> => {
    const writer = logs.begin(row.id);
    const timer = new Timer(stop);
    let outcome: BuildOutcome;
    try {
      await permits.take(stop.signal);
      try {
        stop.signal.throwIfAborted();
        store.start(row.id, Date.now());
        timer.start(deps.timeLimitMs);
        const plan = JSON.parse(row.plan) as BuildPlan;
        outcome = await persistently(writer, stop.signal, () =>
          solve({ id: row.id, plan, log: writer, signal: stop.signal }),
        );
      } finally {
        permits.give();
      }
    } catch (error) {
      // A stopping server leaves the build as it is: the next one takes it up.
      if (isClosing) return writer.end();
      const reason = reasonOf(error, stop.signal);
      if (!(error instanceof Fault) && !stop.signal.aborted) {
        log.error({ buildId: row.id, err: error }, 'build');
      }
      writer.write(`\nThe build failed: ${reason}\n`);
      outcome = { succeeded: false, reason };
    } finally {
      timer.stop();
    }
    store.finish(row.id, outcome, Date.now());
    await writer.end();
    log.info({ buildId: row.id, target: row.target, succeeded: outcome.succeeded }, 'built');
  };

  const begin = (row: BuildRow): void => {
    const stop = new AbortController();
    const done = run(row, stop)
      .catch(err => log.error({ buildId: row.id, err }, 'build'))
      .finally(() => active.delete(row.target));
    active.set(row.target, { row, stop, done });
  };

  const look = async (plan: BuildPlan, onBegin: () => void): Promise<BuildTicket> => {
    const found = await find(plan.target);
    if (found) {
      const id = store.latest(plan.target, found.digest)?.id;
      return { id, isCached: true, succeeded: true };
    }
    const last = store.latest(plan.target);
    if (last?.finishedAt && !last.succeeded && Date.now() - last.finishedAt < deps.retryAfterMs) {
      return { id: last.id, isCached: true, succeeded: false };
    }
    await deps.requireBuilder();
    onBegin();
    const row = store.insert({ ...plan, plan: JSON.stringify(plan) }, Date.now());
    begin(row);
    return { id: row.id, isCached: false, succeeded: undefined };
  };

  const get = (id: string): BuildRow => {
    const row = store.find(id);
    if (row) return row;
    throw new Fault('not-found', 'There is no such build: check its id', { phase: 'request' });
  };

  const byId = (id: string): Active | undefined =>
    [...active.values()].find(({ row }) => row.id === id);

  return {
    async request(plan, onBegin) {
      const running = active.get(plan.target);
      if (running) return { id: running.row.id, isCached: false, succeeded: undefined };
      // All who come while it is looked for share one look, and with it one build.
      let pending = looking.get(plan.target);
      if (!pending) {
        pending = look(plan, onBegin).finally(() => looking.delete(plan.target));
        looking.set(plan.target, pending);
      }
      return pending;
    },

    get,

    async settled(id, ms) {
      const running = byId(id);
      if (running) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const timer = setTimeout(resolve, ms);
        await Promise.race([running.done, promise]);
        clearTimeout(timer);
      }
      return get(id);
    },

    cancel(id) {
      const running = byId(id);
      running?.stop.abort(new Fault('unavailable', 'The build was cancelled', { phase: 'build' }));
      return running !== undefined;
    },

    resume() {
      for (const row of store.unfinished()) begin(row);
    },

    async close() {
      isClosing = true;
      const running = [...active.values()];
      for (const { stop } of running) stop.abort();
      await Promise.all(running.map(({ done }) => done));
    },
  };
}

const tries = 3;
const pauseMs = 1000;

/** Tries again when the builder went away; never for a recipe that fails. */
async function persistently<T>(
  log: LogWriter,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof BuilderLost) || tried === tries || signal.aborted) throw error;
      log.write(`\n${error.message}: trying again\n`);
      await sleep(pauseMs, undefined, { signal });
    }
  }
}

/** Ends a build whose time is over. */
class Timer {
  readonly #stop: AbortController;
  #timer: NodeJS.Timeout | undefined;

  constructor(stop: AbortController) {
    this.#stop = stop;
  }

  start(ms: number): void {
    const minutes = Math.round(ms / 6000) / 10;
    const message = `The build took longer than the ${minutes} minutes allowed: make it smaller, or have the operator raise builds.timeLimit`;
    this.#timer = setTimeout(() => {
      this.#stop.abort(new Fault('unavailable', message, { phase: 'build' }));
    }, ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

function reasonOf(error: unknown, signal: AbortSignal): string {
  const cause = signal.aborted ? signal.reason : error;
  if (cause instanceof Fault) return cause.message;
  return 'Something went wrong inside the service: its log tells more, under the id of the build';
}
