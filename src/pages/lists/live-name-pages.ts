import { z } from 'zod';
import {
  type AskedNames,
  endNames,
  type LiveNameDeps,
  liveNames,
  nameImage,
  namePlace,
  placeText,
} from '../../http/api/index.ts';
import type { LiveName, NameList } from '../../request/index.ts';
import { optional, readFormBody } from '../frame/form-body.ts';
import { type Html, html, shortDigest, timeElement } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

const path = '/view/containers';
const image = optional(nameImage.trim());
const last = optional(namePlace);

/** The list of served names that have not ended, with the rights of the API. */
export const liveNamePages = [
  pageRoute({
    method: 'get',
    path,
    access: 'anybody',
    query: z.object({ image, last, ended: optional(z.coerce.number().int().min(0)) }),
    async run({ ctx, query, viewer }, deps: LiveNameDeps) {
      if (viewer.caller.user === undefined) return noNamesPage();
      const list = await liveNames(ctx.req, viewer.caller, query, deps);
      return liveNamesPage(list, query);
    },
  }),
  pageRoute({
    method: 'post',
    path,
    access: 'anybody',
    query: z.object({ image, last }),
    async run({ ctx, query, viewer }, deps: LiveNameDeps) {
      const { names } = await liveNames(ctx.req, viewer.caller, query, deps);
      // Names that were requested since the page was shown stay: nobody has seen them.
      const chosen = new Set((await readFormBody(ctx.req)).getAll('id'));
      const wanted = names.filter(({ id }) => chosen.has(id));
      const ended = await endNames(ctx.req, wanted, deps);
      return { location: addressOf({ ...query, ended: String(ended) }) };
    },
  }),
];

function noNamesPage(): Page {
  return {
    title: 'Containers',
    content: html`<h1>Containers</h1>
<p class="notice">Log in to see the names that you requested. Without a login, open a container by the address in the response to its request.</p>
<p><a class="button" href="/">Ask for a container</a></p>`,
  };
}

interface ShownNames extends AskedNames {
  readonly ended?: number | undefined;
}

function liveNamesPage(
  { names, next, isForAll }: NameList & { readonly isForAll: boolean },
  { image, last, ended }: ShownNames,
): Page {
  return {
    title: 'Containers',
    content: html`<h1>Containers</h1>
<p>${isForAll ? 'Names that this server serves' : 'Names that you requested'}, until they expire or end.</p>
${ended !== undefined && html`<p class="notice" role="status">Ended ${ended === 1 ? '1 name' : `${ended} names`}.</p>`}
<form class="filters" method="get" action="${path}" role="search" aria-label="Containers">
<div><label for="image">Image or digest</label><input id="image" name="image" type="search" maxlength="4096" value="${image ?? ''}"></div>
<div><button>Show</button></div></form>
${
  names.length === 0
    ? html`<p class="empty">${next === undefined ? 'There are no such names.' : 'None of these names matches. Others may, on the next page.'}</p>`
    : html`<form method="post" action="${addressOf({ image, last })}">
<div class="wide"><table class="listed"><thead><tr><th scope="col">Image</th><th scope="col">Digest</th>${isForAll && html`<th scope="col">Requested by</th>`}<th scope="col">Requested</th><th scope="col">Expires</th><th scope="col">End</th></tr></thead>
<tbody>${names.map(name => row(name, isForAll, image !== undefined))}</tbody></table></div>
<p>After its end nobody can pull a name. This cannot be undone.</p>
<p><button class="danger">End the marked names</button></p></form>`
}
<nav class="paging" aria-label="Pages of the list">${last !== undefined && html`<a href="${addressOf({ image })}">First page</a>`}${next !== undefined && html`<a rel="next" href="${addressOf({ image, last: placeText(next) })}">Next page</a>`}</nav>`,
  };
}

function row(name: LiveName, isForAll: boolean, isMarked: boolean): Html {
  const { id, image, digest, user = '–', createdAt, expiresAt } = name;
  return html`<tr><th scope="row"><code>${image}</code></th>
<td>${digest === undefined ? '–' : html`<code title="${digest}">${shortDigest(digest)}</code>`}</td>
${isForAll && html`<td>${user}</td>`}<td>${timeElement(createdAt)}</td><td>${timeElement(expiresAt)}</td>
<td><input type="checkbox" name="id" value="${id}"${isMarked && html` checked`} aria-label="End ${image}"></td></tr>`;
}

function addressOf(members: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}
