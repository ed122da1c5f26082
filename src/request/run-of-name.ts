import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../foundation/fault.ts';
import type { Identities } from '../platform/index.ts';
import type { Caller, RunOfName, Submission } from './container-request.ts';
import { isActiveRun } from './tokens/run-watch.ts';

/** The run that a name ends with, or why it ends with none. */
interface FoundRun {
  readonly run?: RunOfName;
  /** Why a name that asked for a run has the usual life. */
  readonly warning?: string;
}

/** Finds the run that a request names, with the rights of its caller. It never fails: the name then has the usual life. */
export type FindRun = (
  submission: Pick<Submission, 'workflowId'>,
  caller: Pick<Caller, 'grant' | 'scope'>,
) => Promise<FoundRun>;

/** How long a request waits for its platform (ms). */
const patienceMs = 5000;
const longestShown = 40;

/** @param waitMs how long a request waits for its platform */
export function createFindRun(
  { runsAt, runStatus }: Pick<Identities, 'runsAt' | 'runStatus'>,
  waitMs = patienceMs,
): FindRun {
  return async ({ workflowId: id }, { grant, scope }) => {
    if (id === undefined) return {};
    if (grant === undefined || scope === undefined) {
      return ignored('the request has no access token of the platform that knows the run');
    }
    const platform = runsAt(grant);
    if (platform === undefined) return ignored("this server's own platform keeps no runs");
    const waiting = new AbortController();
    const late = sleep(waitMs, undefined, { signal: waiting.signal, ref: false }).then(
      () => 'late' as const,
      () => 'late' as const,
    );
    const asked = runStatus(grant, id).then(
      status => ({ status }),
      (error: unknown) => ({ error }),
    );
    const result = await Promise.race([asked, late]);
    waiting.abort();
    if (result === 'late') return ignored(`${platform} did not answer in time`);
    if ('error' in result) return ignored(whyUnknown(result.error, platform));
    if (!isActiveRun(result.status)) {
      const shown = result.status.replace(/[^A-Za-z_]+/g, ' ').slice(0, longestShown);
      return ignored(`the run is not active at ${platform} (${shown})`);
    }
    return { run: { key: keyOf(scope, id), platform, id } };
  };
}

/** Another caller who names the same run has another key: neither extends the names of the other. */
function keyOf(scope: string, id: string): string {
  return createHash('sha256')
    .update(JSON.stringify([scope, id]))
    .digest('hex');
}

function whyUnknown(error: unknown, platform: string): string {
  const isRefusal = error instanceof Fault && ['denied', 'not-found'].includes(error.kind);
  return isRefusal
    ? `${platform} does not show you this run`
    : `${platform} did not answer properly`;
}

function ignored(why: string): FoundRun {
  return { warning: `'workflowId' is ignored, and the name has the usual life: ${why}` };
}
