import { durationText, timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import {
  type BuildFilter,
  type BuildList,
  type BuildState,
  buildStates,
  listedKinds,
  type ShownBuild,
} from './build-list.ts';

/** Whose builds a page shows. */
export type Scope = 'own' | 'all';

export interface BuildListView {
  readonly list: BuildList;
  readonly filter: BuildFilter;
  readonly scope: Scope;
  /** True for viewers who may see the builds of all callers. */
  readonly maySeeAll: boolean;
}

const badges: Readonly<Record<BuildState, readonly [string, string]>> = {
  queued: ['waiting', 'wait'],
  running: ['running', 'wait'],
  succeeded: ['succeeded', 'good'],
  failed: ['failed', 'bad'],
};
const kindWords: Readonly<Record<string, string>> = {
  dockerfile: 'Dockerfile',
  conda: 'Packages',
  definition: 'Definition file',
  image: 'Existing image',
};

/** Returns the page with a list of builds. */
export function buildListPage(view: BuildListView, now: number): Page {
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

/** Returns the page for a viewer without a login: the id of a build gives access to it, so nobody sees those of others. */
export function noBuildsPage(): Page {
  return {
    title: 'Builds',
    content: html`<h1>Builds</h1>
<p class="notice">Log in to see your builds. Without a login, open a build by the address in the answer to its request.</p>
<p><a class="button" href="/">Ask for a container</a></p>`,
  };
}

/** Returns the part of the page that changes while builds run. */
export function buildTable(view: BuildListView, now: number): Html {
  const { builds, next, isPartial } = view.list;
  const isMoving = builds.some(({ state }) => state === 'queued' || state === 'running');
  return html`${
    builds.length === 0
      ? html`<p class="empty">${emptyWords(view)}</p>`
      : html`<div class="wide"><table class="listed"${isMoving && html` data-moving`}><thead><tr><th scope="col">State</th><th scope="col">Image</th><th scope="col">Made from</th><th scope="col">Platforms</th><th scope="col" class="number">Duration</th><th scope="col" class="number">Cached steps</th><th scope="col">Requested</th></tr></thead>
<tbody>${builds.map(build => row(build, now))}</tbody></table></div>`
  }
${isPartial && html`<p class="hint">This page looked at 500 builds. Older ones are on the next page.</p>`}
<nav class="paging" aria-label="Pages of the list">${view.filter.before !== undefined && html`<a href="${address(view)}">Newest builds</a>`}${next !== undefined && html`<a rel="next" href="${address(view, next)}">Older builds</a>`}</nav>`;
}

function row(build: ShownBuild, now: number): Html {
  const { id, target, state, kind, platforms, startedAt, finishedAt, createdAt, cache } = build;
  const [word, look] = badges[state];
  const took = startedAt === null ? undefined : (finishedAt ?? now) - startedAt;
  return html`<tr><td><span class="badge ${look}">${word}</span></td>
<th scope="row"><a href="/view/builds/${id}"><code>${target}</code></a></th>
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
<div><label for="shown-state">State</label><select id="shown-state" name="state">${option('', 'All', filter.state)}${buildStates.map(one => option(one, badges[one][0], filter.state))}</select></div>
<div><label for="kind">Made from</label><select id="kind" name="kind">${option('', 'Anything', filter.kind)}${listedKinds.map(one => option(one, kindWords[one] ?? one, filter.kind))}</select></div>
${maySeeAll && html`<div><label for="scope">Requested by</label><select id="scope" name="scope">${option('all', 'Everybody', scope)}${option('own', 'Me', scope)}</select></div>`}
<div><button>Show</button></div></form>`;
}

function address({ filter, scope, maySeeAll }: BuildListView, before?: number): string {
  const query = new URLSearchParams();
  const members = { target: filter.target, state: filter.state, kind: filter.kind, before };
  for (const [name, value] of Object.entries(members)) {
    if (value !== undefined) query.set(name, String(value));
  }
  if (maySeeAll && scope === 'own') query.set('scope', scope);
  return query.size === 0 ? '/view/builds' : `/view/builds?${query}`;
}
