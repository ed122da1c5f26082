import type { DocumentName } from '../conda/index.ts';
import { Fault } from '../foundation/fault.ts';
import { Semaphore } from '../foundation/semaphore.ts';
import { SingleFlight } from '../foundation/single-flight.ts';
import { atMost } from '../foundation/work.ts';
import type { Digest } from '../oci/digest.ts';
import type { Descriptor } from '../oci/index.ts';
import type { SealedGrant } from '../platform/index.ts';
import {
  type BuildOutcome,
  type BuildRow,
  type BuildStore,
  type ExpiredBuild,
  eachRow,
  isNews,
} from '../storage/rows/index.ts';
import { BuildCancelled, requireRoom, type Shares, stopping } from './build-limits.ts';
import {
  type BuildCaller,
  type BuildTicket,
  isSame,
  type Requester,
  ticketOf,
  type Undo,
} from './build-request.ts';
import type { BuildLogs } from './logs/build-logs.ts';
import { type BuildPlan, needsBuilder, needsSecrets, recipeIn } from './plan/build-plan.ts';
import { countBuild, failureText, unableToResume } from './runs/build-outcomes.ts';
import { type BuildRunsDeps, createBuildRuns } from './runs/build-runs.ts';
import { keptDocument, keptNames } from './solve/conda/kept-documents.ts';

export type Cancellation = 'cancelled' | 'others-wait' | 'over';

/** The image of a plan as its caller sees it, for a request that follows. */
export interface Sought {
  /** The newest build of the image before the registry was asked. */
  readonly seen: BuildRow | undefined;
  /** Undefined for a name without an image, and for a build that must run. */
  readonly found: Pick<Descriptor, 'digest' | 'mediaType'> | undefined;
}

export interface Builds {
  /**
   * Looks for the image of a plan. The caller may see the result only after the checks of its other rights, which can run
   * meanwhile. Rejects with a {@link Fault}.
   */
  seek(plan: BuildPlan, caller: Pick<BuildCaller, 'owner' | 'scope' | 'grant'>): Promise<Sought>;
  /**
   * Returns the build of a plan: a finished one, a running one, or a new one. Throws {@link Fault}, and the exceptions
   * of the caller's `onBegin`.
   *
   * @param sought the result of {@link seek}
   */
  request(plan: BuildPlan, caller: BuildCaller, sought?: Promise<Sought>): Promise<BuildTicket>;
  /** Returns the build with this id. Throws {@link Fault} (404). */
  get(id: string): Promise<BuildRow>;
  /** Returns a document about the packages of an image. Throws {@link Fault} (404) for a build that has none. */
  document(id: string, name: DocumentName): Promise<string>;
  /** Returns the names of the documents that a build has. */
  documents(build: BuildRow): Promise<readonly DocumentName[]>;
  /** Returns a text that says what a queued build waits for. */
  waitsFor(build: BuildRow): string;
  /**
   * Returns how many queued builds there are, and how many of them go before this one: those of users, then those that
   * were requested before it.
   */
  queueAt(id: string): { readonly before: number; readonly all: number };
  /** Returns builds of the same image that the caller has begun, the newest first, without the build itself. */
  others(build: BuildRow, caller: Requester): Promise<readonly BuildRow[]>;
  /** Returns the number of builds that run and wait in this process. */
  load(): { readonly running: number; readonly waiting: number };
  /** Returns the build when it has finished, or its state after the given time. Throws {@link Fault} (404). */
  settled(id: string, ms: number): Promise<BuildRow>;
  /** Returns the last build of a name in the same way; undefined for a name without a build. */
  settledAs(target: string, ms: number): Promise<BuildRow | undefined>;
  /** Returns the build when the packages of its image are known, when it has finished, or after the given time. */
  solved(id: string, ms: number): Promise<BuildRow>;
  /**
   * Cancels a queued or running build; returns `over` for a finished one. A build with several callers continues while
   * at least one of them waits for it.
   *
   * @param caller undefined for an administrator, who ends the build for all
   */
  cancel(id: string, caller?: Requester): Promise<Cancellation>;
  /** True for the caller who began the build, and for callers who have requested it since the server started. */
  isCaller(id: string, caller: Requester): Promise<boolean>;
  /** True for a build that the caller has begun. A token that is limited to repositories has only builds of such tokens. */
  isOf(build: Pick<BuildRow, 'owner' | 'grant'>, caller: Requester): boolean;
  /**
   * Resumes the builds that the last process left, a few at a time. Ends those that are no longer allowed, and those
   * during which the server ended unexpectedly three times.
   */
  resume(mayBuild?: (build: Pick<BuildRow, 'isTrusted'>) => boolean): Promise<void>;
  /** Deletes finished builds that need not be kept any longer, and their logs. */
  purge(signal?: AbortSignal): Promise<void>;
  /** Deletes the logs of builds that do not exist, which a process that ended at the wrong moment left. */
  removeStrayLogs(signal?: AbortSignal): Promise<void>;
  /**
   * Builds continue, and new ones begin. From now on, the next process resumes builds that fail: they may fail because this
   * process accepts no more connections, such as those of their pushes.
   */
  drain(): void;
  /** Rejects new builds, and stops running ones; the next process resumes them. */
  close(): Promise<void>;
}

export interface BuildsDeps extends BuildRunsDeps {
  readonly store: BuildStore;
  readonly logs: BuildLogs;
  /** Returns the image that a name refers to, as the caller sees it; undefined for a name that does not exist. */
  readonly find: (target: string, grant: SealedGrant | undefined) => Promise<Sought['found']>;
  /** Throws a {@link Fault} for a build that cannot succeed: no builder, or no right to push. */
  readonly admit: (
    plan: BuildPlan,
    caller: Pick<BuildCaller, 'grant' | 'isTrusted' | 'owner'>,
  ) => Promise<void>;
  /** How long a failure is the response to the same request (ms). */
  readonly retryAfterMs: number;
  /** Removes an expired build, and the content that no other build needs. Returns false for a build that stays. */
  readonly remove: (build: ExpiredBuild, at: number) => Promise<boolean>;
  /** Maximum number of running and waiting builds. */
  readonly waiting: Shares;
}

export function createBuilds(deps: BuildsDeps): Builds {
  const { store, logs, builders, keep, tally, now = Date.now } = deps;
  const { messagesOf = () => [] } = deps;
  const limitsOf: BuildsDeps['limitsOf'] = grant => {
    try {
      return deps.limitsOf(grant);
    } catch {
      return unreadable;
    }
  };
  const runs = createBuildRuns({ ...deps, limitsOf });
  const { active } = runs;
  const seeking = new SingleFlight<Sought>();
  // Among concurrent callers of a target, one enters its build at a time.
  const entries = new Semaphore({ perKey: 1 });
  /** Callers whose builds are being inserted. */
  const entering = new Set<BuildCaller>();

  const requesterOf = ({ owner, grant }: Pick<BuildCaller, 'owner' | 'grant'>): Requester => ({
    owner,
    limits: limitsOf(grant),
  });

  const isOf: Builds['isOf'] = ({ owner, grant }, caller) =>
    owner === caller.owner &&
    (caller.limits === '' ||
      isSame(caller, requesterOf({ owner, grant: (grant ?? undefined) as SealedGrant })));

  const joinRunning = async (
    target: string,
    caller: BuildCaller,
  ): Promise<BuildTicket | undefined> => {
    const running = [...active.values()].find(({ row }) => row.target === target);
    running?.join(caller);
    return running && ticketOf(await get(running.row.id));
  };

  /**
   * Returns the build that made an image; undefined for an image from elsewhere. A build publishes its image before it
   * ends, so one that has not ended counts as the maker.
   */
  const makerOf = async (target: string, digest: Digest): Promise<string | undefined> => {
    const last = (await store.latest(target, digest)) ?? (await store.latest(target));
    const isMaker = last && (last.finishedAt === null || last.digest === digest);
    return isMaker ? last.id : undefined;
  };

  /**
   * Returns the image, or a failure of the same owner that is too recent to try again; undefined for neither. Failures
   * of other owners do not count: they may come from their credentials, their time limit, or a cancellation.
   */
  const ticketFor = async (
    target: string,
    found: Sought['found'],
    caller: BuildCaller,
  ): Promise<BuildTicket | undefined> => {
    if (found) {
      const id = await makerOf(target, found.digest);
      if (id) active.get(id)?.join(caller);
      return { id, isCached: true, succeeded: true, image: found };
    }
    const last = await store.latest(target);
    if (last?.succeeded !== false || !isOf(last, requesterOf(caller))) return undefined;
    const age = now() - (last.finishedAt ?? 0);
    // A wrong clock dated a failure in the future: a new build does not wait until then.
    return age >= 0 && age < deps.retryAfterMs ? ticketOf(last) : undefined;
  };

  const lookUp = async (plan: BuildPlan, grant: BuildCaller['grant']): Promise<Sought> => {
    const seen = await store.latest(plan.target);
    return { seen, found: mustRun(plan) ? undefined : await deps.find(plan.target, grant) };
  };

  /** Shares one lookup between concurrent requests of a caller. */
  const seek: Builds['seek'] = (plan, { owner, scope, grant }) => {
    const key = `${plan.target} ${owner} ${scope} ${mustRun(plan)}`;
    const sought = seeking.run(() => lookUp(plan, grant), { key });
    // Another check of the request may fail before somebody waits for this one.
    sought.catch(() => {});
    return sought;
  };

  const get = (id: string): Promise<BuildRow> => readBuild(store, id);

  const finishUnstarted = async (
    row: BuildRow,
    outcome: BuildOutcome & { readonly succeeded: false },
  ): Promise<void> => {
    const { id } = row;
    const writer = logs.begin(id);
    writer.conclude(failureText(outcome.reason));
    await writer.written();
    await writer.share();
    await writer.end();
    const at = now();
    await store.finish(id, outcome, at, at + keep.failed, messagesOf(row, outcome, at));
    writer.settle();
    countBuild(tally, row, 'server');
  };

  /** Begins a build that is not running in this process: a new one, or one that another process left unfinished. */
  const takeUp = (row: BuildRow, caller: BuildCaller, undo?: Undo): void => {
    if (row.finishedAt !== null || active.has(row.id)) return;
    const { secrets, shown } = caller;
    // A build that exists may have another owner, whose rights decide what it uses.
    runs.begin(row, { secrets, ...(undo ? { undo, shown } : {}) });
    active.get(row.id)?.join(caller);
  };

  /**
   * Enters a build and begins it. Among concurrent callers, the first enters the build, and the others find it, even if
   * it has already ended. The store decides which caller was first, also between processes.
   */
  const enter = async (
    plan: BuildPlan,
    caller: BuildCaller,
    seen: BuildRow | undefined,
  ): Promise<BuildTicket> => {
    const { owner, isTrusted, grant = null } = caller;
    const { key, target } = plan;
    const running = await joinRunning(target, caller);
    if (running) return running;
    const last = await store.latest(target);
    if (last && last.finishedAt !== null && isNews(last, seen)) return ticketOf(last);
    if (runs.isClosing) throw stopping();
    const present = [...[...active.values()].map(({ row }) => row), ...entering];
    requireRoom(deps.waiting, present, caller);
    const undo = caller.onBegin();
    entering.add(caller);
    try {
      const build = { key, target, plan: JSON.stringify(plan), owner, isTrusted, grant };
      const { row, isNew } = await store.insert(build, seen, now());
      if (!isNew) undo();
      takeUp(row, caller, isNew ? undo : undefined);
      return ticketOf(row);
    } catch (error) {
      undo();
      throw error;
    } finally {
      entering.delete(caller);
    }
  };

  const requested = async (
    plan: BuildPlan,
    caller: BuildCaller,
    sought = seek(plan, caller),
  ): Promise<BuildTicket> => {
    const { target } = plan;
    // What its steps print depends on the secrets: only those who may push the image see a build of it.
    const isAdmitted = needsSecrets(plan);
    if (isAdmitted) await deps.admit(plan, caller);
    // The lookup comes first: a caller without access to the image must not see a build of it.
    const { seen, found } = await sought;
    const ticket = mustRun(plan) ? undefined : await ticketFor(target, found, caller);
    const there = isResultOf(plan, ticket) ? ticket : undefined;
    const known = there ?? (await joinRunning(target, caller));
    if (known) {
      tally.add('build requests', {
        answer: known.isCached ? 'existing image' : 'running build',
      });
      return known;
    }
    if (!isAdmitted) await deps.admit(plan, caller);
    const begun = await entries.run(() => enter(plan, caller, seen), { key: target });
    tally.add('build requests', { answer: 'new build' });
    return begun;
  };

  return {
    seek,

    async request(plan, caller, sought) {
      const ticket = await requested(plan, caller, sought);
      if (plan.mirror && ticket.id !== undefined && !ticket.isCached) {
        const { key } = await get(ticket.id);
        if (key !== plan.key) throw otherCopy(plan.target);
      }
      return ticket;
    },

    get,

    document: (id, name) => keptDocument(store, ownId(id), name),
    documents: build => keptNames(store, build),
    waitsFor({ plan }) {
      const isForBuilder = builders.isComing() && needsBuilder(JSON.parse(plan) as BuildPlan);
      return isForBuilder ? 'BuildKit, which is being installed' : 'other builds, which go first';
    },

    queueAt(id) {
      const queued = [...active.values()].filter(({ isStarted }) => !isStarted);
      const ordered = queued.toSorted((a, b) => Number(b.isOfUser) - Number(a.isOfUser));
      const place = ordered.findIndex(({ row }) => row.id === id);
      return { before: Math.max(place, 0), all: queued.length };
    },

    async others({ id, target }, caller) {
      const all = await store.newest(target, comparedBuilds);
      return all.filter(one => one.id !== id && isOf(one, caller));
    },

    load() {
      const running = [...active.values()].filter(({ isStarted }) => isStarted).length;
      return { running, waiting: active.size - running };
    },

    async settled(id, ms) {
      await atMost(ms, active.get(id)?.done);
      return get(id);
    },

    async settledAs(target, ms) {
      const last = await store.latest(target);
      if (last?.finishedAt !== null) return last;
      await atMost(ms, active.get(last.id)?.done);
      return get(last.id);
    },

    async solved(id, ms) {
      await atMost(ms, active.get(id)?.solved);
      return get(id);
    },

    async isCaller(id, caller) {
      const running = active.get(id);
      if (!running) return isOf(await get(id), caller);
      return [...running.callers.values()].some(other => isSame(caller, other));
    },

    isOf,

    async cancel(id, caller) {
      const { finishedAt } = await get(id);
      const running = active.get(id);
      if (!running || finishedAt !== null) return 'over';
      if (caller !== undefined) {
        for (const other of [...running.callers.values()]) {
          if (isSame(caller, other)) running.leave(other);
        }
        if (running.callers.size > 0) return 'others-wait';
      }
      running.stop(new BuildCancelled());
      return 'cancelled';
    },

    async resume(mayBuild = () => true) {
      let last = 0;
      const rows = eachRow(async limit => {
        const page = await store.unfinished(last, limit);
        last = page.at(-1)?.row ?? last;
        return page;
      });
      for await (const { row: _, ...row } of rows) {
        if (runs.isClosing) return;
        // A request for its image may have begun it.
        if (active.has(row.id)) continue;
        const outcome = unableToResume(row, mayBuild(row));
        if (outcome) await finishUnstarted(row, outcome);
        else runs.begin(row, { firstWords: resumed });
      }
    },

    async purge(signal) {
      const read = () => store.expired(now(), purgedAtOnce);
      for (let found = await read(); found.length > 0; found = await read()) {
        for (const build of found) {
          // A request for the build may have come since it was listed.
          if (await deps.remove(build, now())) await logs.remove(build.id);
          signal?.throwIfAborted();
        }
      }
    },

    removeStrayLogs: signal =>
      logs.retain(async id => (await store.find(id)) !== undefined, signal),

    drain: runs.drain,
    close: runs.close,
  };
}

const resumed = '\nThe server was restarted. The build starts again.\n';
const purgedAtOnce = 100;
const comparedBuilds = 20;
/** The limits of a grant whose key was replaced since its build has ended. No token has these. */
const unreadable = ' unknown';

/** Returns a build, as {@link Builds.get} does. */
export async function readBuild(store: Pick<BuildStore, 'find'>, id: string): Promise<BuildRow> {
  const row = await store.find(ownId(id));
  if (row) return row;
  throw new Fault(
    'build-unknown',
    'The build does not exist: check its id, or request the image again',
    { phase: 'request' },
  );
}

/** Returns the id of a build without the prefix that ids of the reference service have. */
function ownId(id: string): string {
  return id.replace(/^bd-/, '');
}

/** Returns true for a plan whose image is made again, even if it exists. */
function mustRun(plan: Pick<BuildPlan, 'origin'>): boolean {
  return recipeIn(plan)?.options?.noCache === true;
}

/** The tag of a copy may refer to an image that was copied before. All other names contain the key of their build. */
function isResultOf({ mirror, origin }: BuildPlan, found: BuildTicket | undefined): boolean {
  const digest = found?.image?.digest;
  return !mirror || digest === undefined || (origin.kind === 'image' && origin.digest === digest);
}

function otherCopy(target: string): Fault {
  return new Fault(
    'unavailable',
    `Another image is being copied to ${target}: try again when that has ended`,
    { phase: 'build', retryAfterSeconds: 10 },
  );
}
