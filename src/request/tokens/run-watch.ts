import { Fault } from '../../foundation/fault.ts';
import type { SealedGrant } from '../../platform/index.ts';
import type { RunRow, RunStore } from '../../storage/rows/index.ts';
import { checkEveryMs, readStoredRequest, rememberMs } from './token-registry.ts';

/**
 * What a check of a run led to: `active` extends its names, `ended` and `capped` end them; `unconfirmed` (the platform does not
 * show the run, or its status is unknown) and `failed` leave their end as it is.
 */
export type RunCheckResult = 'active' | 'ended' | 'capped' | 'unconfirmed' | 'failed';

/** Asks platforms whether runs are still active. */
export interface RunWatch {
  /**
   * Asks one platform about the runs that are due, a few at a time. It ends early where the platform does not answer: the next
   * round asks about other runs first.
   */
  round(platform: string, signal: AbortSignal): Promise<void>;
  /** Deletes runs whose names ended long ago. */
  purge(signal?: AbortSignal): Promise<void>;
}

export interface RunWatchDeps {
  readonly runs: RunStore;
  /** Returns the status of a run, as the caller of the grant may see it. Throws a `Fault`. */
  readonly statusOf: (grant: SealedGrant, id: string) => Promise<string>;
  /** As in {@link TokenRegistryOptions}. */
  readonly maxLifeMs: number;
  readonly runLeaseMs: number;
  readonly note: (result: RunCheckResult) => void;
  /** Returns false while the clock is unreliable: nothing ends then because of its age. */
  readonly isSteady: () => Promise<boolean>;
  readonly now?: () => number;
}

const activeStates = ['SUBMITTED', 'RUNNING'];
const endedStates = ['SUCCEEDED', 'FAILED', 'CANCELLED'];

const mostInRound = 250;
const mostAtOnce = 4;
const mostFailures = 4;
/** Tokens that are tried for a run of one caller, the newest first: older ones may have been revoked. */
const mostGrants = 3;

/** Returns the status that a request checks before its name is tied to the run. */
export function isActiveRun(status: string): boolean {
  return activeStates.includes(status);
}

export function createRunWatch(deps: RunWatchDeps): RunWatch {
  const { runs, statusOf, maxLifeMs, runLeaseMs, note, isSteady, now = Date.now } = deps;
  const everyMs = checkEveryMs(runLeaseMs);

  /** Returns the status; undefined if the platform shows the run to none of the tokens. Throws what the platform's own failures throw. */
  const ask = async (key: Buffer): Promise<string | undefined> => {
    for (const { body } of await runs.newestRequests(key, mostGrants)) {
      const { run, caller } = readStoredRequest(body);
      if (run === undefined || caller.grant === undefined) continue;
      try {
        return await statusOf(caller.grant, run.id);
      } catch (error) {
        const isRefusal = error instanceof Fault && ['denied', 'not-found'].includes(error.kind);
        if (!isRefusal) throw error;
      }
    }
    return undefined;
  };

  const check = async ({ key, leaseUntil, endsAt }: RunRow): Promise<RunCheckResult> => {
    if (endsAt <= now() && (await isSteady())) {
      await runs.end(key, now());
      return 'capped';
    }
    let status: string | undefined;
    try {
      status = await ask(key);
    } catch {
      await runs.postpone(key, now() + everyMs);
      return 'failed';
    }
    if (status !== undefined && isActiveRun(status)) {
      await runs.renew(key, now() + runLeaseMs, now() + everyMs);
      return 'active';
    }
    // A run that nobody confirms any more is asked about until its names have ended.
    const hasLapsed = leaseUntil <= now() && (await isSteady());
    const isOver = hasLapsed || endedStates.includes(status ?? '');
    if (isOver) await runs.end(key, now());
    else await runs.postpone(key, now() + everyMs);
    return isOver ? 'ended' : 'unconfirmed';
  };

  return {
    async round(platform, signal) {
      const due = await runs.due(platform, now(), now() + 2 * everyMs, mostInRound);
      let failures = 0;
      const work = async () => {
        for (let run = due.shift(); run && !signal.aborted; run = due.shift()) {
          const result = await check(run);
          note(result);
          failures = result === 'failed' ? failures + 1 : 0;
          if (failures >= mostFailures) return;
        }
      };
      await Promise.all(Array.from({ length: mostAtOnce }, work));
    },

    async purge(signal) {
      await runs.purge(now() - rememberMs, now() + maxLifeMs + rememberMs, signal);
    },
  };
}
