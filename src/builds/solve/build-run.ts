import type { SealedGrant } from '../../platform/identities.ts';
import type { BuildOutcome } from '../../storage/rows/images/build-rows.ts';
import type { Secrets } from '../asker.ts';
import type { LogWriter } from '../build-logs.ts';
import type { BuildPlan } from '../plan/build-plan.ts';

/** Does one build. What it throws is a failure; a {@link Fault}'s message is for the user. */
export type Solve = (run: BuildRun) => Promise<Extract<BuildOutcome, { succeeded: true }>>;

export interface BuildRun {
  readonly id: string;
  readonly plan: BuildPlan;
  /** In whose right images are pulled and pushed. */
  readonly grant: SealedGrant | undefined;
  readonly owner: string;
  /** False for the build of a caller whom nobody knows. */
  readonly isTrusted: boolean;
  readonly secrets?: Secrets | undefined;
  readonly log: LogWriter;
  readonly signal: AbortSignal;
}
