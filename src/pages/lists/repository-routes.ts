import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import {
  listRepositories,
  listUntagged,
  type RepositoryList,
  type RepositorySources,
  type RepositoryView,
  recentDays,
  type ShownManifest,
  type ShownReferrer,
  type ShownTag,
  type UntaggedImage,
  type UntaggedPage,
  viewManifest,
  viewRepository,
} from '../../hosted/index.ts';
import type { RecordAudit } from '../../http/index.ts';
import {
  type ListedRepositories,
  listRights,
  mayNotDelete,
  pullRights,
} from '../../http/registry/index.ts';
import { isDigest } from '../../oci/digest.ts';
import { isRepository, isTag } from '../../oci/naming.ts';
import type { Caller } from '../../request/index.ts';
import type { RecentPulls } from '../../storage/rows/index.ts';
import { optional } from '../frame/form-body.ts';
import {
  byteText,
  countText,
  type Html,
  html,
  shortDigest,
  timeElement,
  withoutHidden,
} from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

export interface RepositoryPagesDeps {
  readonly repositories: ListedRepositories;
  readonly recordAudit: RecordAudit;
  readonly publicUrl: URL;
}

const name = z.string().refine(isRepository, 'must be the name of a repository');
const reference = z
  .string()
  .refine(text => isTag(text) || isDigest(text), 'must be a tag or a digest');
const last = optional(z.string().max(255));

/** Pages of hosted repositories. Their rights are those of the registry. */
export const repositoryRoutes = [
  pageRoute({
    method: 'get',
    path: '/view/repositories',
    access: 'anybody',
    query: z.object({ find: optional(z.string().trim().max(255)), last }),
    async run({ ctx, query, viewer }, { repositories }: RepositoryPagesDeps) {
      const { find = '', last: after = '' } = query;
      const rights = await listRights(ctx.req, viewer.caller, repositories);
      const list = await listRepositories(rights, find.toLowerCase(), after, repositories);
      return repositoryListPage(list, { find, after, hasLogin: viewer.name !== undefined });
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/repositories/content',
    access: 'anybody',
    query: z.object({ name, last, untagged: optional(reference), deleted: optional(reference) }),
    async run({ ctx, query, viewer }, { repositories, publicUrl }: RepositoryPagesDeps) {
      const { name, last: after = '', untagged = '', deleted } = query;
      const rights = await pullRights(ctx.req, viewer.caller, name, repositories);
      const view = await viewRepository(name, after, repositories);
      const mayDelete = rights(name).includes('delete');
      const images = mayDelete ? await listUntagged(name, untagged, repositories) : undefined;
      const place = { host: publicUrl.host, after, untagged, mayDelete, deleted };
      return repositoryPage(view, images, place);
    },
  }),
  pageRoute({
    method: 'get',
    path: '/view/repositories/delete',
    access: 'anybody',
    query: z.object({ name, reference }),
    async run({ ctx, query, viewer }, { repositories }: RepositoryPagesDeps) {
      await requireDelete(ctx.req, viewer.caller, query.name, repositories);
      return deletionPage(await viewDeletion(query.name, query.reference, repositories));
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/repositories/delete',
    access: 'anybody',
    query: z.object({ name, reference }),
    async run({ ctx, query, viewer }, { repositories, recordAudit }: RepositoryPagesDeps) {
      const { name, reference } = query;
      await requireDelete(ctx.req, viewer.caller, name, repositories);
      await repositories.manifests.remove(name, reference);
      recordAudit(ctx.req, 'manifest.delete', `${name} ${reference}`);
      const isLeft = await repositories.store.hasRepository(name);
      return {
        location: isLeft ? contentAddress(name, { deleted: reference }) : '/view/repositories',
      };
    },
  }),
];

async function requireDelete(
  request: IncomingMessage,
  caller: Caller,
  name: string,
  repositories: RepositoryPagesDeps['repositories'],
): Promise<void> {
  const rights = await pullRights(request, caller, name, repositories);
  if (rights(name).includes('delete')) return;
  throw mayNotDelete(name);
}

const shownCharacters = 200;
const shownAnnotations = 4;

/** Returns the page with the repositories that a viewer may pull. */
function repositoryListPage(
  { repositories, next }: RepositoryList,
  { find, after, hasLogin }: { find: string; after: string; hasLogin: boolean },
): Page {
  const address = (last?: string) => addressOf('/view/repositories', { find, last });
  return {
    title: 'Repositories',
    content: html`<h1>Repositories</h1>
<form class="filters" method="get" action="/view/repositories" role="search" aria-label="Repositories">
<div><label for="find">Name contains</label><input id="find" name="find" type="search" maxlength="255" value="${find}"></div>
<div><button>Show</button></div></form>
${
  repositories.length === 0
    ? html`<p class="empty">${find === '' && after === '' ? 'This server hosts no repository that you may pull.' : 'No repository here matches.'}${!hasLogin && ' A login may show more.'}</p>`
    : html`<div class="wide"><table class="listed"><thead><tr><th scope="col">Repository</th><th scope="col" class="number">Size</th>${pullHeads}</tr></thead>
<tbody>${repositories.map(
        ({ name, bytes, pulls }) =>
          html`<tr><th scope="row"><a href="${contentAddress(name)}"><code>${name}</code></a></th><td class="number">${byteText(bytes)}</td>${pullCells(pulls)}</tr>`,
      )}</tbody></table></div>`
}
<nav class="paging" aria-label="Pages of the list">${after !== '' && html`<a href="${address()}">First page</a>`}${next !== undefined && html`<a rel="next" href="${address(next)}">Next page</a>`}</nav>`,
  };
}

interface RepositoryPlace {
  readonly host: string;
  /** The tag before the page, and the digest before the page of untagged images. */
  readonly after: string;
  readonly untagged: string;
  readonly mayDelete: boolean;
  readonly deleted: string | undefined;
}

function repositoryPage(
  view: RepositoryView,
  untagged: UntaggedPage | undefined,
  place: RepositoryPlace,
): Page {
  const { name, bytes, tags, next } = view;
  const { host, after, mayDelete, deleted } = place;
  const more = { untagged: place.untagged };
  return {
    title: name,
    content: html`<p class="minor"><a href="/view/repositories">Repositories</a></p>
<h1>${name}</h1>
${deleted !== undefined && html`<p class="notice" role="status">Deleted ${deleted}. The server removes unreferenced content later.</p>`}
<p>${byteText(bytes)} on this server, ${pullWords(view.pulls)}</p>
<div class="copy"><pre tabindex="0">docker pull ${host}/${name}${tags[0] && `:${tags[0].tag}`}</pre></div>
<h2 id="tags">Tags</h2>
${
  tags.length === 0
    ? html`<p class="empty">${after === '' ? 'No image here has a tag.' : 'There are no more tags.'}</p>`
    : html`<div class="wide"><table class="listed"><thead><tr><th scope="col">Tag</th><th scope="col">Digest</th><th scope="col">Platforms</th><th scope="col" class="number">Size</th>${pullHeads}<th scope="col">Referrers</th>${mayDelete && deleteHead}</tr></thead>
<tbody>${tags.map(tag => tagRow(tag, name, host, mayDelete))}</tbody></table></div>`
}
<nav class="paging" aria-label="Pages of the tags">${after !== '' && html`<a href="${contentAddress(name, more)}#tags">First page</a>`}${next !== undefined && html`<a rel="next" href="${contentAddress(name, { ...more, last: next })}#tags">Next page</a>`}</nav>
${untagged && (untagged.images.length > 0 || untagged.next !== undefined || place.untagged !== '') && untaggedPart(name, untagged, place)}`,
  };
}

/** Returns the images without a tag: they need space, and only those who know the digest can pull them. */
function untaggedPart(name: string, { images, next }: UntaggedPage, place: RepositoryPlace): Html {
  const { host, after: last, untagged, mayDelete } = place;
  return html`<h2 id="untagged">Untagged images</h2>
<p class="minor">No tag names them any more. They can be pulled by digest until they are deleted.</p>
${
  images.length === 0
    ? html`<p class="empty">None on this page.</p>`
    : html`<div class="wide"><table class="listed"><thead><tr><th scope="col">Digest</th><th scope="col">Platforms</th><th scope="col" class="number">Size</th>${pullHeads}${mayDelete && deleteHead}</tr></thead>
<tbody>${images.map(image => untaggedRow(image, name, host, mayDelete))}</tbody></table></div>`
}
<nav class="paging" aria-label="Pages of the untagged images">${untagged !== '' && html`<a href="${contentAddress(name, { last })}#untagged">First page</a>`}${next !== undefined && html`<a rel="next" href="${contentAddress(name, { last, untagged: next })}#untagged">Next page</a>`}</nav>`;
}

function untaggedRow(image: UntaggedImage, name: string, host: string, mayDelete: boolean): Html {
  const { digest, pulls } = image;
  const inspect = addressOf('/view/inspect', { image: `${host}/${name}@${digest}` });
  return html`<tr><th scope="row"><a href="${inspect}"><code title="${digest}">${shortDigest(digest)}</code></a></th>
${imageCells(image)}${pullCells(pulls)}
${mayDelete && deleteCell(name, digest)}</tr>`;
}

const deleteHead = html`<th scope="col"><span class="unseen">Delete</span></th>`;
const pullHeads = html`<th scope="col" class="number">Pulls in ${recentDays} days</th><th scope="col">Last pull</th>`;

function pullCells({ count, lastAt }: RecentPulls): Html {
  return html`<td class="number">${countText(count)}</td><td>${lastAt === undefined ? '–' : timeElement(lastAt)}</td>`;
}

function pullWords({ count, lastAt }: RecentPulls): Html {
  if (lastAt === undefined) return html`no recorded pull`;
  return html`${countText(count)} ${count === 1 ? 'pull' : 'pulls'} in the last ${recentDays} days; the last pull was at ${timeElement(lastAt)}`;
}

function imageCells({ platforms, artifactType, bytes }: ShownManifest): Html {
  return html`<td>${platforms.length > 0 ? cut(platforms.join(', ')) : html`<code>${cut(artifactType ?? '–')}</code>`}</td>
<td class="number">${bytes === undefined ? '–' : byteText(bytes)}</td>`;
}

function deleteCell(name: string, reference: string): Html {
  return html`<td><a href="${deleteAddress(name, reference)}" aria-label="Delete ${reference}">Delete</a></td>`;
}

function tagRow(shown: ShownTag, name: string, host: string, mayDelete: boolean): Html {
  const { tag, digest, referrers, hasMoreReferrers, pulls } = shown;
  const inspect = addressOf('/view/inspect', { image: `${host}/${name}:${tag}` });
  return html`<tr><th scope="row"><a href="${inspect}"><code>${tag}</code></a></th>
<td><code title="${digest}">${shortDigest(digest)}</code></td>
${imageCells(shown)}${pullCells(pulls)}
<td>${
    referrers.length === 0
      ? '–'
      : html`<details><summary>${hasMoreReferrers ? `more than ${referrers.length}` : referrers.length}</summary><ul>${referrers.map(referrerItem)}</ul></details>`
  }</td>
${mayDelete && deleteCell(name, tag)}</tr>`;
}

function referrerItem({ digest, artifactType, annotations }: ShownReferrer): Html {
  const shown = Object.entries(annotations).slice(0, shownAnnotations);
  return html`<li><code>${cut(artifactType ?? 'unknown type')}</code> <code title="${digest}">${shortDigest(digest)}</code>${shown.map(
    ([key, value]) => html`<br><span class="minor">${cut(key)}: ${cut(value)}</span>`,
  )}</li>`;
}

/** Returns the page that says what a deletion does, and asks for a confirmation. */
function deletionPage(deletion: Deletion): Page {
  const { repository, reference, isTag, manifest, tags, hasMoreTags } = deletion;
  const name = `${repository}${isTag ? ':' : '@'}${reference}`;
  const others = tags.filter(tag => tag !== reference);
  return {
    title: `Delete ${name}`,
    content: html`<p class="minor"><a href="${contentAddress(repository)}">${repository}</a></p>
<h1>${isTag ? 'Delete a tag' : 'Delete an image'}</h1>
<dl class="facts"><dt>${isTag ? 'Tag' : 'Image'}</dt><dd><code>${name}</code></dd>
<dt>Digest</dt><dd><code>${manifest.digest}</code></dd>
${manifest.platforms.length > 0 && html`<dt>Platforms</dt><dd>${cut(manifest.platforms.join(', '))}</dd>`}
<dt>${isTag ? 'Other tags' : 'Tags'}</dt><dd>${others.length === 0 ? 'none' : others.join(', ')}${hasMoreTags && ', and more'}</dd>
<dt>Frees</dt><dd>${isTag ? 'nothing: the image stays under its digest' : byteText(deletion.freedBytes)}</dd></dl>
${isTag ? tagAdvice(deletion) : imageAdvice(deletion)}
<form method="post" action="${deleteAddress(repository, reference)}"><p><button class="danger">${isTag ? 'Delete this tag' : 'Delete this image and its tags'}</button> <a class="button quiet" href="${contentAddress(repository)}">Keep it</a></p></form>`,
  };
}

function tagAdvice({ repository, manifest, freedBytes }: Deletion): Html {
  return html`<p>To free ${byteText(freedBytes)}, <a href="${deleteAddress(repository, manifest.digest)}">delete the image with all its tags</a> instead.</p>`;
}

function imageAdvice({ repository, manifest: { images } }: Deletion): Html {
  if (images.length === 0) {
    return html`<p>Nobody can pull this image afterwards. Layers that other images use stay.</p>`;
  }
  return html`<p>Nobody can pull this index afterwards. The images of its platforms stay under their digests. Delete each of them to free its layers:</p>
<ul>${images.map(({ platform, digest }) => html`<li><a href="${deleteAddress(repository, digest)}">${cut(platform)}</a> <code>${shortDigest(digest)}</code></li>`)}</ul>`;
}

/** Returns the address of the page of a repository. */
function contentAddress(
  name: string,
  more: Readonly<Record<string, string | undefined>> = {},
): string {
  return addressOf('/view/repositories/content', { name, ...more });
}

function deleteAddress(name: string, reference: string): string {
  return addressOf('/view/repositories/delete', { name, reference });
}

function addressOf(path: string, members: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) if (value) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}

/** Shortens a text from outside, and makes all its characters visible. */
function cut(text: string): string {
  const shown = withoutHidden(text.slice(0, shownCharacters));
  return text.length > shownCharacters ? `${shown}…` : shown;
}

/** What a deletion would do. */
interface Deletion {
  readonly repository: string;
  /** The tag or digest to delete. */
  readonly reference: string;
  readonly isTag: boolean;
  readonly manifest: ShownManifest;
  /** The tags of the manifest, up to {@link mostTags}. */
  readonly tags: readonly string[];
  readonly hasMoreTags: boolean;
  /** Bytes on the disk that only this manifest needs. */
  readonly freedBytes: number;
}

const mostTags = 50;

/** Returns what the deletion of a tag or of a manifest would do. Throws a `Fault` (404). */
async function viewDeletion(
  repository: string,
  reference: string,
  sources: RepositorySources,
): Promise<Deletion> {
  const { store, manifests } = sources;
  const { digest, size } = await manifests.head(repository, reference);
  const tags = await store.tagsOf(repository, digest, mostTags + 1);
  let freedBytes = size;
  for (const part of await store.soleParts(repository, digest)) {
    await pauseTurn();
    // The images of an index stay: their sizes are not those of blobs.
    const bytes = await store.blobSize(repository, part);
    const isShared = (await store.holdersOf(part, 2)).length > 1;
    if (bytes !== undefined && !isShared) freedBytes += bytes;
  }
  return {
    repository,
    reference,
    isTag: !isDigest(reference),
    freedBytes,
    manifest: await viewManifest(repository, digest, sources),
    tags: tags.slice(0, mostTags),
    hasMoreTags: tags.length > mostTags,
  };
}
