import { z } from 'zod';
import { maskAddresses } from '../../buildkit/index.ts';
import type { BuildStep, Builds } from '../../builds/index.ts';
import { type BuildPlan, recipeIn } from '../../builds/plan/build-plan.ts';
import { recipeKindNamed } from '../../builds/plan/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { type CancelDeps, cancelBuild, requesterOf } from '../../http/api/index.ts';
import { hasScope } from '../../platform/built-in/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { BuildRow } from '../../storage/rows/index.ts';
import { longestAddress } from '../ask/ask-form.ts';
import { namedCode, shortName } from '../ask/use-commands.ts';
import { optional } from '../frame/form-body.ts';
import { html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute, type Viewer } from '../frame/page-route.ts';
import { progressPart } from './build-progress.ts';
import {
  buildTitle,
  type ComparedBuild,
  comparePart,
  statePart,
  stepsPart,
} from './build-state.ts';
import { type BuildView, type BuildViewDeps, viewBuild } from './build-view.ts';
import type { BuildWatches } from './build-watches.ts';
import { foldsOf, type LogPage, linesAtOnce, linesPart, logPart, mostFound } from './log-part.ts';
import {
  contextFilesOf,
  contextFilesPage,
  hasContextFiles,
  recipePart,
} from './recipe/recipe-part.ts';
import { recordedSteps } from './recipe/shown-recipe.ts';

export interface BuildPageDeps extends BuildViewDeps, CancelDeps {
  readonly watches: BuildWatches;
  readonly content: ContentStore;
}

const position = z.coerce.number().int().min(0).max(1e9);

const pageQuery = z.object({
  step: optional(position),
  from: optional(position),
  line: optional(position),
  find: optional(z.string().max(200)),
  view: optional(z.enum(['lines', 'steps'])),
  open: optional(position),
  done: optional(z.enum(['cancelled', 'others-wait', 'over'])),
});
const filesQuery = z.object({ from: optional(position) });
const linesQuery = z.object({ from: position, to: position, step: optional(position) });

const doneWords = {
  cancelled: 'The build was cancelled.',
  'others-wait': 'The build continues: other callers wait for it.',
  over: 'The build was finished already.',
};

/** Routes of the page of a build. Everyone who knows the id of a build may see it, as in the JSON API. */
export const buildPageRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/builds/{buildId}',
    access: 'anybody',
    isShared: true,
    query: pageQuery,
    async run({ params, query, viewer }, deps: BuildPageDeps) {
      const key = keyIn(params.buildId);
      // A key can be computed from a recipe: it shows the builds of the viewer, and no others.
      if (key !== undefined) return { location: `/view/builds?target=${key}` };
      const view = await viewBuild(idOf(params.buildId), deps);
      const log = await logPage(view, query);
      const own = await viewerPart(view.id, viewer, deps);
      const done = query.done && doneWords[query.done];
      // Each page takes some ms: many that are requested at once do not hold up others together.
      await pauseTurn();
      return buildPage(view, log, { ...own, done }, Date.now());
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/builds/{buildId}/lines',
    access: 'anybody',
    query: linesQuery,
    async run({ params, query: { from, to, step } }, { builds, logs }: BuildPageDeps) {
      const { id } = await builds.get(idOf(params.buildId));
      const lines = await logs.lines(id);
      const end = Math.min(to, from + linesAtOnce);
      return { piece: html`${linesPart((await lines?.read(from, end, step)) ?? [])}` };
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/builds/{buildId}/events',
    access: 'anybody',
    async run({ ctx, params }, { builds, watches }: BuildPageDeps) {
      const { id } = await builds.get(idOf(params.buildId));
      ctx.type = 'text/event-stream';
      ctx.set('cache-control', 'no-store');
      // Otherwise nginx buffers several kilobytes.
      ctx.set('x-accel-buffering', 'no');
      const body = watches.watch(id);
      ctx.res.once('close', () => body.destroy());
      ctx.body = body;
      ctx.flushHeaders();
      return undefined;
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/builds/{buildId}/files',
    access: 'anybody',
    query: filesQuery,
    async run({ params, query, viewer }, { builds, content }: BuildPageDeps) {
      const build = await builds.get(idOf(params.buildId));
      if (!maySeeAll(build, viewer, builds)) {
        throw new Fault(
          'denied',
          'Only the caller who requested a build, and administrators, see its files',
        );
      }
      const plan = JSON.parse(build.plan) as BuildPlan;
      const from = Math.max(0, (query.from ?? 1) - 1);
      const files = await contextFilesOf(build.id, plan, from, content);
      if (!files) throw new Fault('not-found', 'This build has no uploaded build context');
      return contextFilesPage(files);
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/builds/{buildId}/cancel',
    access: 'anybody',
    async run({ ctx, params, viewer }, deps: BuildPageDeps) {
      const { caller } = viewer;
      const { id, outcome } = await cancelBuild(ctx.req, caller, idOf(params.buildId), deps);
      return { location: `/view/builds/${id}?done=${outcome}` };
    },
  }),
];

/** Returns the key in an id without the number of a build. */
function keyIn(text: string): string | undefined {
  return /^(?:bd-)?([0-9a-f]{32})$/.exec(text)?.[1];
}

/** The number of a build may follow `-` instead of `_`, as in the reference service. */
function idOf(text: string): string {
  return text.replace(/-(\d+)$/, '_$1');
}

async function logPage(
  { lines, steps }: BuildView,
  { step: wanted, from, line, find, view, open }: z.output<typeof pageQuery>,
): Promise<LogPage> {
  const step =
    line === undefined && steps.some(({ number }) => number === wanted) ? wanted : undefined;
  const total = step === undefined ? (lines?.total ?? 0) : (lines?.countOf(step) ?? 0);
  const last = Math.max(0, total - linesAtOnce);
  const first = line === undefined ? from : line - linesAtOnce / 2;
  // Positions in addresses are counted from 1. A step is read from its beginning, a log from its end.
  const start = first === undefined ? (step === undefined ? last : 0) : Math.max(0, first - 1);
  const begin = Math.min(start, last);
  const isBySteps = view === 'steps' && first === undefined && step === undefined;
  return {
    step,
    total,
    from: begin,
    lines: isBySteps ? [] : ((await lines?.read(begin, begin + linesAtOnce, step)) ?? []),
    folds: isBySteps ? await foldsOf({ steps, lines }, open) : undefined,
    search:
      find === undefined
        ? undefined
        : { text: find, found: (await lines?.search(find, mostFound)) ?? [] },
  };
}

async function viewerPart(
  id: string,
  viewer: Viewer,
  { builds, logs }: BuildPageDeps,
): Promise<Omit<ViewerPart, 'done'>> {
  const build = await builds.get(id);
  const plan = JSON.parse(build.plan) as BuildPlan;
  const { caller } = viewer;
  const mayCancel =
    viewer.isAdministrator ||
    (hasScope(caller.rights, 'build') && (await builds.isCaller(id, requesterOf(caller))));
  // The id of a build lets everyone see it: only its owner learns the ids of the others.
  const maySee = maySeeAll(build, viewer, builds);
  const own = viewer.isAdministrator ? { limits: '' } : requesterOf(caller);
  const others = maySee ? await builds.others(build, { ...own, owner: build.owner }) : [];
  const all = [...others, build].sort((one, other) => other.createdAt - one.createdAt);
  const compared: ComparedBuild[] = [];
  const after = Math.max(0, all.findIndex(one => one.id === id) - 1);
  for (const [at, one] of all.entries()) {
    // The newer one, this one and the earlier ones.
    const isNear = all.length > 1 && at >= after && at < after + mostCompared;
    const record = isNear ? await logs.steps(one.id) : undefined;
    compared.push(comparedBuild(one, record?.steps ?? []));
  }
  return {
    mayCancel,
    again: againAddress(plan),
    files: maySee && hasContextFiles(plan) ? `/view/builds/${id}/files` : undefined,
    compared,
  };
}

/** The id of a build lets everyone see it: not the other builds of its image, and not the files that were sent. */
function maySeeAll(
  build: BuildRow,
  { caller, isAdministrator }: Viewer,
  { isOf }: Pick<Builds, 'isOf'>,
): boolean {
  return isAdministrator || (hasScope(caller.rights, 'build') && isOf(build, requesterOf(caller)));
}

/** Builds whose steps stand side by side. */
const mostCompared = 4;

function comparedBuild(
  { id, createdAt, startedAt, finishedAt, succeeded }: BuildRow,
  steps: readonly BuildStep[],
): ComparedBuild {
  const isOver = finishedAt !== null;
  return {
    id,
    createdAt,
    steps: recordedSteps(steps, isOver),
    state: isOver ? (succeeded ? 'succeeded' : 'failed') : 'not finished',
    tookMs: isOver ? finishedAt - (startedAt ?? createdAt) : undefined,
  };
}

/**
 * Returns the address of the first page with its form filled with the recipe of a build; undefined for a recipe that
 * the form cannot hold, such as one with a build context, or with a password in an address.
 */
function againAddress(plan: BuildPlan): string | undefined {
  const recipe = recipeIn(plan);
  if (!recipe || recipe.context !== undefined) return undefined;
  const { native, dockerfile, platforms } = recipe;
  const fields: [string, string][] = [];
  if (native?.wanted.form === 'environment' && native.wanted.pip.length === 0) {
    const { wanted, channels, options } = native;
    fields.push(
      ['by', 'packages'],
      ...wanted.packages.map((one): [string, string] => ['package', one]),
      ['channels', channels.join('\n')],
      ['base', options.baseImage],
    );
  } else if (!native && !recipeKindNamed(recipe.recipe).isGenerated) {
    fields.push(['by', 'dockerfile'], ['dockerfile', dockerfile]);
  } else return undefined;
  for (const platform of platforms) fields.push(['platform', platform]);
  if (plan.sif) fields.push(['format', 'sif']);
  const isSecret = fields.some(([, text]) => maskAddresses(text) !== text);
  const address = `/?${new URLSearchParams(fields)}`;
  return isSecret || address.length > longestAddress ? undefined : address;
}

/** What one viewer may see and do beyond what everyone may. */
interface ViewerPart {
  readonly mayCancel: boolean;
  /** Address of the form with this recipe; undefined for a recipe that does not fit into an address. */
  readonly again: string | undefined;
  /** Builds of the same image, the newest first, this one included; empty for viewers without a right to see them. */
  readonly compared: readonly ComparedBuild[];
  /** Address of the list of files that were sent with the recipe; undefined where there is none for the viewer. */
  readonly files: string | undefined;
  /** What the last action did. */
  readonly done: string | undefined;
}

// Seconds between two looks of a browser without scripts.
const refreshSeconds = 5;

function buildPage(view: BuildView, log: LogPage, own: ViewerPart, now: number): Page {
  const { id, image, state } = view;
  const isOver = state === 'succeeded' || state === 'failed';
  return {
    title: buildTitle(view),
    scripts: ['build'],
    ...(isOver ? {} : { refreshSeconds }),
    content: html`<h1>Build of ${namedCode(shortName(image.name))}</h1>
<p class="minor id"><code>${id}</code></p>
${own.done !== undefined && html`<p class="notice" role="status">${own.done}</p>`}
<div class="actions">${
      !isOver &&
      own.mayCancel &&
      html`<form method="post" action="/view/builds/${id}/cancel" id="cancel"><button class="danger">Cancel the build</button></form>`
    }${own.again !== undefined && html`<a class="button quiet" href="${own.again}">Build again…</a>`}</div>
<div id="state">${statePart(view)}</div>
<div id="progress">${progressPart(view, now)}</div>
<div id="course">${stepsPart(view, now)}</div>
<div id="recipe">${recipePart(view.recipe)}</div>
${own.files !== undefined && html`<p><a href="${own.files}">Files of the build context</a></p>`}
${comparePart(own.compared, id)}
${logPart(view, log)}`,
  };
}
