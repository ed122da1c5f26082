/** The life of builds: builders, runs, logs, rights. */

export type { Shares } from './build-limits.ts';
export {
  type BuildCaller,
  type BuildTicket,
  type OnBegin,
  type Requester,
  type Secrets,
  ticketOf,
} from './build-request.ts';
export { type BuildService, createBuildService } from './build-service.ts';
export type { ContainmentOptions } from './builder/contained/containment.ts';
export { type BringBuilder, findBuilders } from './builder/find-builders.ts';
export type { BuilderShare } from './builder/found-builder.ts';
export { type Builds, type Cancellation, readBuild } from './builds.ts';
export { sendUnsent, unsentIn } from './logs/archived-logs.ts';
export type { BuildLogs, LogOptions } from './logs/build-logs.ts';
export type { BuildStep, PlatformLayers, StepState } from './logs/build-step.ts';
export type { LoggedStep, LogLine, LogLines, StepProgress } from './logs/log-lines.ts';
export { buildResults, ownFailure } from './runs/build-outcomes.ts';
export {
  type BaseCheckDeps,
  checkRecipeImages,
  type FindServedBase,
  type ShownBase,
} from './solve/bases/base-check.ts';
export type { OfferImage } from './solve/bases/prepare-bases.ts';
export { lastLinesFollow } from './solve/build-fault.ts';
export { accessInOwnRight } from './solve/build-rights.ts';
export { closedSourceRules } from './solve/closed-sources.ts';
export { sentence } from './solve/conda/builder-required.ts';
export type { Solution, SolutionOf } from './solve/conda/solution-of.ts';
export {
  type ContextContent,
  listUploadedContext,
  openUploadedContext,
} from './solve/context/build-context.ts';
export { removeSifLeftovers } from './solve/sif/sif-leftovers.ts';
