import type { SealedGrant } from '../../platform/index.ts';
import type { BuildOutcome } from '../../storage/rows/index.ts';
import type { Secrets } from '../build-request.ts';
import type { LogWriter } from '../logs/build-logs.ts';
import type { BuildPlan } from '../plan/build-plan.ts';
import type { ShownBases } from './bases/base-check.ts';

/** Runs one build. Throws if the build fails; the message of a {@link Fault} is for the user. */
export type Solve = (run: BuildRun) => Promise<Extract<BuildOutcome, { succeeded: true }>>;

export interface BuildRun {
  readonly id: string;
  readonly plan: BuildPlan;
  /** The rights to pull and push images. */
  readonly grant: SealedGrant | undefined;
  readonly owner: string;
  /** False for the build of a caller without a login. */
  readonly isTrusted: boolean;
  readonly secrets?: Secrets | undefined;
  /** What registries showed to its caller before it began. */
  readonly shown?: ShownBases | undefined;
  /** Called when the packages of the image are known. */
  readonly onSolved?: (() => void) | undefined;
  /** Resolves when a build that began without a builder may use one. */
  readonly requireBuilder?: (() => Promise<void>) | undefined;
  readonly log: LogWriter;
  readonly signal: AbortSignal;
}
