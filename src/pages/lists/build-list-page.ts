import { z } from 'zod';
import {
  type BuildFilter,
  type BuildList,
  type BuildListSources,
  type BuildState,
  buildStates,
  listBuilds,
  listedKinds,
  requesterOf,
  type ShownBuild,
} from '../../http/api/index.ts';
import type { RequireAdministrator } from '../../http/index.ts';
import { requireScope } from '../../platform/built-in/index.ts';
import { namedCode } from '../ask/use-commands.ts';
import { failureOf } from '../builds/build-view.ts';
import { optional } from '../frame/form-body.ts';
import { durationText, type Html, html, shownText, timeElement } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

/** Whose builds a page shows. */
type Scope = 'own' | 'all';

interface BuildListView {
  readonly list: BuildList;
  readonly filter: BuildFilter;
  readonly scope: Scope;
  /** True for viewers who may see the builds of all callers. */
  readonly maySeeAll: boolean;
}

const stateBadges: Readonly<Record<BuildState, readonly [string, string]>> = {
  queued: ['waiting', 'wait'],
  running: ['running', 'wait'],
  succeeded: ['succeeded', 'good'],
  failed: ['failed', 'bad'],
};
const kindWords: Readonly<Record<string, string>> = {
  dockerfile: 'Dockerfile',
  conda: 'Packages',
  cran: 'R packages',
  definition: 'Definition file',
  image: 'Existing image',
};

function buildListPage(view: BuildListView, now: number): Page {
  const { list } = view;
  const isMoving = list.builds.some(({ state }) => state === 'queued' || state === 'running');
  return {
    title: 'Builds',
    scripts: ['build-list'],
    ...(isMoving ? { refreshSeconds: 5 } : {}),
    content: html`<h1>Builds</h1>
${filterForm(view)}
<div id="builds">${buildTable(view, now)}</div>`,
  };
}

/**
 * Returns the page for a viewer without a login: the id of a build gives access to it, so nobody sees those of others. A
 * script lists those that the browser remembers.
 */
function noBuildsPage(): Page {
  return {
    title: 'Builds',
    scripts: ['own-builds'],
    content: html`<h1>Builds</h1>
<p class="notice">Without a login, this page lists the builds that this browser has opened. Open another build by the address in the response to its request. With a login, it lists all your builds.</p>
<div id="own-builds"><p class="empty">This browser has not opened a build yet.</p></div>
<p><a class="button" href="/">Ask for a container</a></p>`,
  };
}

/** Returns the part of the page that changes while builds run. */
function buildTable(view: BuildListView, now: number): Html {
  const { builds, next, isPartial } = view.list;
  const isMoving = builds.some(({ state }) => state === 'queued' || state === 'running');
  return html`${
    builds.length === 0
      ? html`<p class="empty">${emptyWords(view)}</p>`
      : html`<div class="wide"><table class="listed"${isMoving && html` data-moving`}><thead><tr><th scope="col">State</th><th scope="col">Image</th><th scope="col">Made from</th><th scope="col">Platforms</th><th scope="col" class="number">Duration</th><th scope="col" class="number">Cached steps</th><th scope="col">Requested</th></tr></thead>
<tbody>${builds.map(build => buildRow(build, now))}</tbody></table></div>`
  }
${isPartial && html`<p class="hint">This page looked at 500 builds. Older ones are on the next page.</p>`}
<nav class="paging" aria-label="Pages of the list">${view.filter.before !== undefined && html`<a href="${listAddress(view)}">Newest builds</a>`}${next !== undefined && html`<a rel="next" href="${listAddress(view, next)}">Older builds</a>`}</nav>`;
}

/** A list has 25 builds: a reason may be long, and its page has all of it. */
const mostOfReason = 200;

function buildRow(build: ShownBuild, now: number): Html {
  const { id, target, state, kind, platforms, startedAt, finishedAt, createdAt, cache } = build;
  // The page of the build has the last lines of its failed step as well.
  const why = build.reason && failureOf(build.reason).words.trim().replaceAll('\n', ' ');
  const [word, look] = stateBadges[state];
  const took = startedAt === null ? undefined : (finishedAt ?? now) - startedAt;
  return html`<tr><td><span class="badge ${look}">${word}</span></td>
<th scope="row"><a href="/view/builds/${id}">${namedCode(target)}</a>${why && html`<div class="why">${shownText(why, mostOfReason)}</div>`}</th>
<td>${kindWords[kind] ?? 'Recipe'}${build.isSif && html`<span class="minor">, Singularity</span>`}</td>
<td>${platforms.length === 0 ? '–' : platforms.join(', ')}</td>
<td class="number">${took === undefined ? '–' : durationText(Math.max(0, took))}</td>
<td class="number">${cache ? `${cache.cached} of ${cache.all}` : '–'}</td>
<td class="age">${timeElement(createdAt)}<span class="minor">${durationText(Math.max(0, now - createdAt))} ago</span></td></tr>`;
}

function emptyWords({ filter, scope, list }: BuildListView): string {
  if (list.isPartial) return 'No build among these matches the filters.';
  const { state, kind, target, before } = filter;
  if (before !== undefined) return 'There are no older builds.';
  if ([state, kind, target].some(one => one !== undefined)) return 'No build matches the filters.';
  return scope === 'own' ? 'You have not requested a build yet.' : 'This server has no builds yet.';
}

function filterForm({ filter, scope, maySeeAll }: BuildListView): Html {
  const option = (value: string, text: string, chosen: string | undefined) =>
    html`<option value="${value}"${value === (chosen ?? '') && html` selected`}>${text}</option>`;
  return html`<form class="filters" method="get" action="/view/builds" role="search" aria-label="Builds">
<div><label for="target">Image contains</label><input id="target" name="target" type="search" maxlength="200" value="${filter.target ?? ''}"></div>
<div><label for="shown-state">State</label><select id="shown-state" name="state">${option('', 'All', filter.state)}${buildStates.map(one => option(one, stateBadges[one][0], filter.state))}</select></div>
<div><label for="kind">Made from</label><select id="kind" name="kind">${option('', 'Anything', filter.kind)}${listedKinds.map(one => option(one, kindWords[one] ?? one, filter.kind))}</select></div>
${maySeeAll && html`<div><label for="scope">Requested by</label><select id="scope" name="scope">${option('all', 'Everybody', scope)}${option('own', 'Me', scope)}</select></div>`}
<div><button>Show</button></div></form>`;
}

function listAddress({ filter, scope, maySeeAll }: BuildListView, before?: number): string {
  const query = new URLSearchParams();
  const members = { target: filter.target, state: filter.state, kind: filter.kind, before };
  for (const [name, value] of Object.entries(members)) {
    if (value !== undefined) query.set(name, String(value));
  }
  if (maySeeAll && scope === 'own') query.set('scope', scope);
  return query.size === 0 ? '/view/builds' : `/view/builds?${query}`;
}

export interface BuildListDeps extends BuildListSources {
  readonly requireAdministrator: RequireAdministrator;
}

const listQuery = z.object({
  state: optional(z.enum(buildStates)),
  kind: optional(z.enum(listedKinds)),
  target: optional(z.string().trim().max(200)),
  before: optional(z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER)),
  scope: optional(z.enum(['own', 'all'])),
  part: optional(z.literal('table')),
});

/** The list of builds. An id of a build gives access to it, so a viewer sees the viewer's own builds only. */
export const buildListRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/builds',
    access: 'anybody',
    query: listQuery,
    async run({ query: { scope: wanted, part, ...filter }, viewer }, deps: BuildListDeps) {
      const maySeeAll = viewer.isAdministrator;
      // Callers without a login share the network that their builds are recorded with.
      if (!maySeeAll && viewer.caller.user === undefined) return noBuildsPage();
      if (!maySeeAll) requireScope(viewer.caller.rights, 'build');
      const scope = maySeeAll ? (wanted ?? 'all') : 'own';
      const caller = scope === 'own' ? requesterOf(viewer.caller) : undefined;
      const view = { list: await listBuilds(caller, filter, deps), filter, scope, maySeeAll };
      if (part === 'table') return { piece: buildTable(view, Date.now()) };
      return buildListPage(view, Date.now());
    },
  }),
];
