/** The life of builds: builders, runs, logs, rights. */

export type { BuildCaller, OnBegin, Requester, Secrets } from './build-caller.ts';
export { type BuildService, createBuildService } from './build-service.ts';
export { type BuildTicket, ticketOf } from './build-ticket.ts';
export type { ContainmentOptions } from './builder/contained/containment.ts';
export { type BringBuilder, findBuilders } from './builder/find-builders.ts';
export type { BuilderShare } from './builder/found-builder.ts';
export type { Builds, Cancellation } from './builds.ts';
export type { Shares } from './limits/shares.ts';
export { sendUnsent, unsentIn } from './logs/archive/unsent-logs.ts';
export type { BuildLogs, LogOptions } from './logs/build-logs.ts';
export type { BuildStep, PlatformLayers, StepState } from './logs/build-step.ts';
export type { LoggedStep, LogLine, LogLines } from './logs/log-lines.ts';
export { buildResults } from './runs/build-figures.ts';
export { ownFailure } from './runs/failure-reasons.ts';
export type { BaseCheckDeps, FindServedBase, ShownBase } from './solve/bases/base-check.ts';
export type { OfferImage } from './solve/bases/prepare-bases.ts';
export { checkRecipeImages } from './solve/bases/triggered-images.ts';
export { accessInOwnRight } from './solve/build-rights.ts';
export { closedSourceRules } from './solve/closed-sources.ts';
export { sentence } from './solve/conda/builder-required.ts';
export type { Solution, SolutionOf } from './solve/conda/solution-of.ts';
export {
  type ContextContent,
  listUploadedContext,
  openUploadedContext,
} from './solve/context/uploaded-context.ts';
export { lastLinesFollow } from './solve/failures/build-fault.ts';
export { removeSifLeftovers } from './solve/sif/sif-leftovers.ts';
