import {
  type BuildLogs,
  type Builds,
  type LogLines,
  lastLinesFollow,
  type PlatformLayers,
  type StepProgress,
} from '../../builds/index.ts';
import { type BuildPlan, pullName } from '../../builds/plan/build-plan.ts';
import type { DocumentName } from '../../conda/index.ts';
import type { BuildRow } from '../../storage/rows/index.ts';
import { type UsedImage, type UsedImageDeps, usedImage } from '../ask/use-commands.ts';
import {
  loggedSteps,
  recordedSteps,
  type ShownRecipe,
  type ShownStep,
  shownRecipe,
} from './recipe/shown-recipe.ts';

/** What everyone who knows the id of a build may see of it. It is the same for all of them. */
export interface BuildView {
  readonly id: string;
  readonly state: 'queued' | 'running' | 'succeeded' | 'failed';
  readonly createdAt: number;
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** What a queued build waits for. */
  readonly queue:
    | { readonly waitsFor: string; readonly before: number; readonly all: number }
    | undefined;
  readonly failure: Failure | undefined;
  readonly steps: readonly ShownStep[];
  /** Steps are known by the text of the log only. */
  readonly isFromLog: boolean;
  /** How far the running steps are, by their numbers; empty for a build that does not run. */
  readonly progress: ReadonlyMap<number, StepProgress>;
  readonly image: ShownImage;
  readonly recipe: ShownRecipe;
  readonly lines: LogLines | undefined;
}

export interface Failure {
  readonly words: string;
  /** The last lines of the failed step; empty for other failures. */
  readonly output: string;
}

export interface ShownImage extends UsedImage {
  readonly format: 'docker' | 'sif';
  readonly digest: string | undefined;
  /** Layers by platform; empty where they are not known. */
  readonly platforms: readonly PlatformLayers[];
  /** Documents about its packages. */
  readonly documents: readonly DocumentName[];
}

export interface BuildViewDeps extends UsedImageDeps {
  readonly builds: Builds;
  readonly logs: BuildLogs;
}

/** Returns what the page of a build shows. Throws a `Fault` (404). */
export async function viewBuild(id: string, deps: BuildViewDeps): Promise<BuildView> {
  const { builds, logs } = deps;
  const build = await builds.get(id);
  const plan = JSON.parse(build.plan) as BuildPlan;
  const record = await logs.steps(id);
  const lines = await logs.lines(id);
  const state = stateOf(build);
  const failure = build.reason === null ? undefined : failureOf(build.reason);
  const recorded = recordedSteps(record?.steps ?? [], build.finishedAt !== null);
  const isFromLog = recorded.length === 0;
  const steps = isFromLog ? loggedSteps(lines?.steps ?? []) : recorded;
  const platforms = record?.platforms ?? [];
  const running = state === 'running' ? (lines?.steps ?? []) : [];
  return {
    id: build.id,
    state,
    createdAt: build.createdAt,
    failure,
    steps,
    isFromLog,
    lines,
    progress: new Map(
      running
        .filter(step => step.state === 'running')
        .map(({ number, progress }) => [number, progress]),
    ),
    startedAt: build.startedAt ?? undefined,
    finishedAt: build.finishedAt ?? undefined,
    queue:
      state === 'queued'
        ? { waitsFor: builds.waitsFor(build), ...builds.queueAt(build.id) }
        : undefined,
    image: await imageOf(build, plan, platforms, deps),
    recipe: shownRecipe(plan, { steps, failure, platforms }),
  };
}

function stateOf({ finishedAt, startedAt, succeeded }: BuildRow): BuildView['state'] {
  if (finishedAt !== null) return succeeded ? 'succeeded' : 'failed';
  return startedAt === null ? 'queued' : 'running';
}

/** Returns why a build failed, apart from the last lines of its failed step. */
export function failureOf(reason: string): Failure {
  const [words = '', ...output] = reason.split(`${lastLinesFollow}\n`);
  return { words, output: output.join('\n') };
}

async function imageOf(
  build: BuildRow,
  plan: BuildPlan,
  platforms: readonly PlatformLayers[],
  deps: BuildViewDeps,
): Promise<ShownImage> {
  const { target, digest } = build;
  const { sif } = plan;
  return {
    ...usedImage(pullName({ target, sif }), deps),
    format: sif ? 'sif' : 'docker',
    platforms,
    digest: digest ?? undefined,
    documents: await deps.builds.documents(build),
  };
}
