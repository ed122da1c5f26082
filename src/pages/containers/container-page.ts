import { scaleLinear } from 'd3-scale';
import { z } from 'zod';
import { type BuildPlan, recipeIn } from '../../builds/plan/build-plan.ts';
import { type EndRequestDeps, endRequest, isOwner } from '../../http/api/index.ts';
import { changesIn, type ImageChange } from '../../images/augment/index.ts';
import { hasScope } from '../../platform/built-in/index.ts';
import { type ContainerRequest, layerName } from '../../request/index.ts';
import { namedCode, shortName, useCommands } from '../ask/use-commands.ts';
import { progressPart } from '../builds/build-progress.ts';
import { statePart as buildStatePart, failureBox, stepsPart } from '../builds/build-state.ts';
import { failureOf } from '../builds/build-view.ts';
import {
  byteText,
  countText,
  foldedText,
  type Html,
  html,
  type PageRoom,
  pageRoom,
  shortDigest,
  shownText,
  timeElement,
  visibleLines,
  visibleText,
  withoutHidden,
} from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';
import { layerAddress } from '../images/layer/layer-data.ts';
import type { ConfigGroup, ConfigRow } from './config-difference.ts';
import {
  type ContainerData,
  type ContainerImage,
  type ContainerPageDeps,
  containerData,
  type LayerOrigin,
  type StackedLayer,
} from './container-data.ts';
import { pullsPart } from './container-pulls.ts';

/** The page of a container request. Its token is enough to see it, as with the JSON API. */
export const containerPages = [
  pageRoute({
    method: 'get',
    path: '/view/containers/{token}',
    access: 'anybody',
    isShared: true,
    query: z.object({ platform: z.string().max(100).optional() }),
    async run({ params, query, viewer }, deps: ContainerPageDeps) {
      const data = await containerData(params.token, query.platform, viewer, deps);
      const { caller, isAdministrator } = viewer;
      const mayEnd =
        isAdministrator || (hasScope(caller.rights, 'request') && isOwner(caller, data.request));
      return containerPage(data, mayEnd, Date.now());
    },
  }),
  // Its address before the page of a new container was that of every container.
  pageRoute({
    method: 'get',
    path: '/view/asked/{token}',
    access: 'anybody',
    async run({ params }, { tokens }: ContainerPageDeps) {
      const { token } = await tokens.describe(params.token);
      return { location: `/view/containers/${token}` };
    },
  }),
  // With the right that the API requires.
  pageRoute({
    method: 'post',
    path: '/view/containers/{token}/end',
    access: 'anybody',
    async run({ ctx, viewer, params: { token } }, deps: EndRequestDeps) {
      await endRequest(ctx.req, viewer.caller, token, deps);
      return { location: `/view/containers/${encodeURIComponent(token)}` };
    },
  }),
];

const untilBuiltSeconds = 5;
const untilRespondedSeconds = 3;

/** Returns the page of a container request. A script replaces the parts that have an id. */
function containerPage(data: ContainerData, mayEnd: boolean, now: number): Page {
  const { request, source, state, image } = data;
  const isBuilding = state.kind === 'building';
  const isLate = image !== undefined && 'isLate' in image;
  const refreshSeconds = isBuilding
    ? untilBuiltSeconds
    : isLate
      ? untilRespondedSeconds
      : undefined;
  const isLive = state.kind === 'ready' || isBuilding;
  const name = shortName(source);
  return {
    // The state comes first, because a tab shows a few letters.
    title: `${titleWords(state)}: container ${visibleText(name, 80)}`,
    scripts: ['container'],
    ...(refreshSeconds === undefined ? {} : { refreshSeconds }),
    content: html`<h1>Container ${namedCode(name)}</h1>
<div id="state" aria-live="polite"${request.buildId !== undefined && html` data-made="${request.buildId}"`}>${statePart(data)}</div>
<div id="progress">${state.kind === 'building' && progressPart(state.build, now)}</div>
<div id="use">${state.kind !== 'ended' && state.kind !== 'failed' && usePart(data)}</div>
<div id="build">${buildPart(data, now)}</div>
<h2>The request</h2>
<div id="facts">${factsPart(data)}</div>
${state.kind !== 'frozen' && pullsPart(data.pulls)}
<div id="contents">${contentsPart(request, image)}</div>
${mayEnd && isLive && endPart(request)}
<p><a href="/">Ask for another container</a></p>`,
  };
}

function titleWords(state: ContainerData['state']): string {
  if (state.kind === 'building') return state.build.state === 'queued' ? 'Waiting' : 'Building';
  return { ready: 'Ready', frozen: 'Ready', failed: 'Failed', ended: 'Ended' }[state.kind];
}

function contentsPart(
  { token }: ContainerRequest,
  image: ContainerData['image'],
): Html | undefined {
  if (image === undefined) return undefined;
  if ('why' in image) {
    return html`<h2>Layers</h2><p class="failure"${image.isLate && html` data-late`}>${visibleLines(image.why)}</p>`;
  }
  return imagePart(token, image);
}

function imagePart(token: string, image: ContainerImage): Html {
  const { platforms, platform, layers, config, name } = image;
  const choices = platforms.map(
    one =>
      html`<li>${one === platform ? html`<strong aria-current="true">${visibleText(one, 80)}</strong>` : html`<a href="/view/containers/${token}?platform=${encodeURIComponent(one)}#layers">${visibleText(one, 80)}</a>`}</li>`,
  );
  const room = pageRoom();
  const choice = platforms.length > 0 ? { platform } : {};
  const digests = layers.map(({ digest }) => digest);
  const addressOf = (at: number) =>
    name === undefined
      ? undefined
      : layerAddress({ image: name, ...choice, layer: layerName(digests, at) });
  return html`<h2 id="layers">Layers</h2>
${platforms.length > 1 && html`<nav aria-label="Platforms"><ul class="choices">${choices}</ul></nav>`}
${layerStack(layers, room, addressOf)}
<h2>Configuration</h2>
${configTable(config, room)}`;
}

function endPart({ token }: ContainerRequest): Html {
  return html`<h2>End</h2>
<p>After its end nobody can pull the name. This cannot be undone.</p>
<form method="post" action="/view/containers/${token}/end"><button class="danger">End this container</button></form>`;
}

/** Returns the name of a container, and what to write for each client. */
function usePart({ used }: ContainerData): Html {
  return html`<h2>Its name</h2>
<div class="copy" data-what="the name"><pre class="name">${used.name}</pre></div>
<h2>Use it</h2>
<div class="uses">${useCommands(used).map(
    ({ client, text, note }) => html`<section><h3>${client}</h3>
<div class="copy" data-what="the command for ${client}"><pre>${text}</pre></div>
${note !== undefined && html`<p class="hint">${note}</p>`}</section>`,
  )}</div>`;
}

/** Returns whether the name of a container can be pulled, in words. */
function statePart({ state, request }: ContainerData): Html {
  const { expiresAt, buildId, isFrozen, run } = request;
  const build = buildId !== undefined && linkTo(buildId, 'the build');
  switch (state.kind) {
    case 'ready':
      return html`<p><span class="badge good">Ready</span> Everybody who has the name can pull it, until ${timeElement(expiresAt)}${run && longerText(run)}.</p>`;
    case 'frozen':
      return html`<p><span class="badge good">Ready</span> The image is in its repository, and the name does not expire.</p>`;
    case 'building': {
      const isWaiting = state.build.state === 'queued';
      const use = isFrozen
        ? 'The name can be pulled when the build has finished. It does not expire.'
        : html`You can use the name now: a pull waits for the build. The name expires at ${timeElement(expiresAt)}${run && longerText(run)}.`;
      return html`<p><span class="badge wait">${isWaiting ? 'Waiting' : 'Building'}</span> ${use}</p>`;
    }
    case 'failed':
      return html`<p><span class="badge bad">Build failed</span> Its name cannot be pulled${build && html`: see ${build}`}.</p>
${failureBox(failureOf(state.reason))}`;
    case 'ended':
      return html`<p><span class="badge bad">Ended</span> The name ended at ${timeElement(expiresAt)} and can no longer be pulled. Make a new container request to get a new name. To keep an image, freeze it.</p>`;
  }
}

function longerText({ id }: NonNullable<ContainerRequest['run']>): Html {
  return html`, and longer while the run <code>${id}</code> is active`;
}

/** Returns a running build as its own page shows it. Scripts follow its events. */
function buildPart({ state }: ContainerData, now: number): Html | undefined {
  if (state.kind !== 'building') return undefined;
  const { id } = state.build;
  return html`<h2>Its build</h2>
<div data-build="${id}"><div id="build-state">${buildStatePart(state.build)}</div>
<div id="course">${stepsPart(state.build, now)}</div></div>
<p>${linkTo(id, 'The page of the build')} has its recipe and its log.</p>`;
}

function linkTo(id: string, text: string): Html {
  return html`<a href="/view/builds/${encodeURIComponent(id)}">${text}</a>`;
}

/** Returns what was requested, and what it became. */
function factsPart({ request, source, state, plan }: ContainerData): Html {
  const { asked, fixed, createdAt, expiresAt, buildId, isBuilt, isFrozen, platform } = request;
  const isThere = state.kind === 'frozen' || state.kind === 'ready';
  const packages = packagesIn(plan);
  const inspected = isThere ? request.targetImage : undefined;
  return html`<dl class="facts">
<dt>${isBuilt && plan?.origin.kind !== 'image' ? 'Built image' : 'Base image'}</dt><dd><code>${shownText(source, 300)}</code>${fixed && html`<br><code class="minor">${fixed.base.digest}</code>`}</dd>
${fixed && html`<dt>Result</dt><dd>${fixed.served.digest === fixed.base.digest ? 'The same image, unchanged' : html`<code>${fixed.served.digest}</code>`}</dd>`}
${packages.length > 0 && html`<dt>Packages</dt><dd><code>${shownText(packages.join(', '), 600)}</code></dd>`}
<dt>Added</dt><dd>${addedWords(request.isFrozen && plan ? plan.change : request.change)}</dd>
${asked?.buildRepository !== undefined && html`<dt>Repository</dt><dd><code>${shownText(asked.buildRepository, 300)}</code></dd>`}
${asked?.cacheRepository !== undefined && html`<dt>Cache</dt><dd><code>${shownText(asked.cacheRepository, 300)}</code></dd>`}
${asked?.nameStrategy !== undefined && html`<dt>Naming</dt><dd><code>${asked.nameStrategy}</code></dd>`}
${platform !== undefined && html`<dt>Platform</dt><dd>${shownText(platform, 80)}</dd>`}
${buildId !== undefined && html`<dt>Build</dt><dd><a href="/view/builds/${encodeURIComponent(buildId)}">${shownText(buildId, 120)}</a></dd>`}
${inspected !== undefined && html`<dt>Contents</dt><dd><a href="/view/inspect?image=${encodeURIComponent(inspected)}">What is in the image</a></dd>`}
<dt>Requested</dt><dd>${timeElement(createdAt)}</dd>
${!isFrozen && html`<dt>${state.kind === 'ended' ? 'Ended' : 'Ends'}</dt><dd>${timeElement(expiresAt)}</dd>`}
</dl>`;
}

/** Returns the Conda packages that were asked for; empty for lock files and other recipes. */
function packagesIn(plan: BuildPlan | undefined): readonly string[] {
  const wanted = plan && recipeIn(plan)?.native?.wanted;
  return wanted?.form === 'environment' ? [...wanted.packages, ...wanted.pip] : [];
}

/** Returns what the request adds to its image, in words. */
function addedWords(change: ImageChange): string {
  const count = (of: number, one: string) => `${countText(of)} ${one}${of === 1 ? '' : 's'}`;
  const changes = changesIn(change);
  const layers = changes.reduce((sum, one) => sum + (one.layers?.length ?? 0), 0);
  const variables = changes.reduce((sum, one) => sum + (one.env?.length ?? 0), 0);
  const has = (field: 'entrypoint' | 'cmd' | 'workingDir') =>
    changes.some(one => one[field] !== undefined);
  const parts = [
    layers > 0 && count(layers, 'layer'),
    variables > 0 && count(variables, 'variable'),
    has('entrypoint') && 'an entrypoint',
    has('cmd') && 'a command',
    has('workingDir') && 'a working directory',
  ].filter(part => part !== false);
  return parts.length === 0 ? 'Nothing' : parts.join(', ');
}

const changeKinds = {
  added: { mark: '+', about: 'added' },
  removed: { mark: '−', about: 'removed' },
  changed: { mark: '±', about: 'changed' },
} as const;

/** Returns the configuration before and after the changes: the changed rows first, the rest on request. */
function configTable(groups: readonly ConfigGroup[], room: PageRoom): Html {
  if (groups.length === 0) return html`<p class="minor">The image has no configuration.</p>`;
  return html`${groups.map(({ title, rows }) => {
    const changed = room.list(rows.filter(isChanged), changedRow);
    const rest = rows.filter(row => !isChanged(row));
    const same = room.list(rest, sameRow);
    const left = changed.left + same.left;
    const isShort = rows.length === rest.length && rest.length <= 8;
    const table = same.shown.length > 0 && tableOf(title, same.shown, ['Value']);
    return html`<h3>${title}</h3>
${changed.shown.length > 0 && tableOf(`${title}, changed`, changed.shown, ['Before', 'After'])}
${table && (isShort ? table : html`<details><summary>${rest.length} unchanged</summary>${table}</details>`)}
${left > 0 && html`<p class="minor">${left} more are not shown: the page would be too large.</p>`}`;
  })}`;
}

function isChanged({ before, after }: ConfigRow): boolean {
  return before !== after;
}

function tableOf(title: string, rows: readonly Html[], heads: readonly string[]): Html {
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title}"><table class="difference">
<thead><tr><th scope="col">Name</th>${heads.map(head => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows}</tbody></table></div>`;
}

function changedRow({ name, before, after }: ConfigRow): Html {
  const kind = before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
  const { mark, about } = changeKinds[kind];
  return html`<tr class="${kind}"><th scope="row"><span class="mark" aria-hidden="true">${mark}</span> ${shownText(name, 120)} <span class="minor">${about}</span></th><td>${valueCell(before, 'old')}</td><td>${valueCell(after, 'new')}</td></tr>`;
}

function sameRow({ name, after }: ConfigRow): Html {
  return html`<tr><th scope="row">${shownText(name, 120)}</th><td>${valueCell(after, 'same')}</td></tr>`;
}

function valueCell(text: string | undefined, kind: 'old' | 'new' | 'same'): Html {
  if (text === undefined) return html`<span class="minor">none</span>`;
  const code = foldedText(text);
  if (kind === 'old') return html`<del>${code}</del>`;
  return kind === 'new' ? html`<ins>${code}</ins>` : code;
}

/** Names of the origins, and what they mean. */
const layerOrigins: Readonly<
  Record<LayerOrigin, { readonly name: string; readonly about: string }>
> = {
  injected: { name: 'injected', about: 'added by this request' },
  package: { name: 'packages', about: 'packages of Conda and PyPI' },
  built: { name: 'built', about: 'the image that the build made' },
  base: { name: 'base', about: 'of the base image' },
};

/** Layers that the picture shows as one slab. */
interface Slab {
  readonly origin: LayerOrigin;
  readonly size: number;
  readonly count: number;
  /** What a slab of one layer is, in place of its origin. */
  readonly name: string | undefined;
}

const slabHeight = 28;
const slabGap = 3;
const widestSlab = 55;
const mostSlabs = 24;

/**
 * Returns the stack of layers as a picture, the top layer first, its sums, and a table with the same.
 *
 * @param addressOf returns the address of the page of a layer; takes its position, the lowest layer first
 */
function layerStack(
  layers: readonly StackedLayer[],
  room: PageRoom,
  addressOf: (at: number) => string | undefined,
): Html {
  const total = layers.reduce((sum, { size }) => sum + size, 0);
  if (layers.length === 0) return html`<p class="minor">The image has no layers.</p>`;
  const slabs = slabsOf(layers).reverse();
  const present = (Object.keys(layerOrigins) as LayerOrigin[]).filter(origin =>
    layers.some(layer => layer.origin === origin),
  );
  const sums = present.map(origin => {
    const own = layers.filter(layer => layer.origin === origin);
    const size = own.reduce((sum, layer) => sum + layer.size, 0);
    const { name, about } = layerOrigins[origin];
    return html`<li><svg class="swatch" width="16" height="16" aria-hidden="true"><rect class="slab ${origin}" width="16" height="16" rx="2"/></svg> <strong>${name}</strong>, ${about}: ${countOf(own.length)}, ${byteText(size)}</li>`;
  });
  const numbered = layers.map((layer, at) => ({ layer, number: at + 1 })).reverse();
  const { shown, left } = room.list(numbered, ({ layer, number }) =>
    layerRow(layer, number, addressOf(number - 1)),
  );
  return html`<p>${countOf(layers.length)}, ${byteText(total)} compressed. The top layer is the first.</p>
<ul class="legend">${sums}</ul>
${stackPicture(slabs)}
<details class="table"><summary>The layers as a table</summary>
<div class="wide" tabindex="0" role="region" aria-label="Layers"><table>
<thead><tr><th scope="col" class="number">Layer</th><th scope="col">Origin</th><th scope="col" class="number">Size</th><th scope="col">Made by</th><th scope="col">Digest</th></tr></thead>
<tbody>${shown}</tbody>
</table></div>${left > 0 && html`<p class="minor">${left} more are not shown.</p>`}</details>`;
}

function layerRow(
  { origin, size, by, digest }: StackedLayer,
  number: number,
  address: string | undefined,
): Html {
  const name = address === undefined ? number : html`<a href="${address}">${number}</a>`;
  return html`<tr><td class="number">${name}</td><td>${layerOrigins[origin].name}</td><td class="number">${byteText(size)}</td><td class="made-by">${by === undefined ? html`<span class="minor">not recorded</span>` : html`${foldedText(by)}`}</td><td><code title="${digest}">${shortDigest(digest)}</code></td></tr>`;
}

function stackPicture(slabs: readonly Slab[]): Html {
  const widthOf = scaleLinear(
    [0, Math.max(1, ...slabs.map(({ size }) => size))],
    [0.6, widestSlab],
  );
  const height = slabs.length * (slabHeight + slabGap);
  const bars = slabs.map(({ origin, size, count, name }, at) => {
    const y = at * (slabHeight + slabGap);
    const kind = layerOrigins[origin].name;
    const what = count === 1 ? (name ?? kind) : `${count} × ${kind}`;
    return html`<rect class="ground" y="${y}" width="100%" height="${slabHeight}" rx="4"/>
<rect class="slab ${origin}" y="${y}" width="${widthOf(size).toFixed(2)}%" height="${slabHeight}" rx="4"/>
<text x="57%" y="${y + slabHeight / 2}" dy="0.35em">${byteText(size)} <tspan class="minor">${what}</tspan></text>`;
  });
  return html`<svg class="stack" role="img" aria-label="Stack of layers; the table below has the same" width="100%" height="${height}">
<defs><pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="under" width="6" height="6"/><circle class="mark" cx="3" cy="3" r="1.3"/></pattern>
<pattern id="lines" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="under" width="6" height="6"/><rect class="mark" width="2" height="6"/></pattern>
<pattern id="grid" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="under" width="8" height="8"/><rect class="mark" width="8" height="1.5"/></pattern></defs>
${bars}
</svg>`;
}

/** `conda: samtools 1.20 (bioconda)` in the history of an image, up to the channel. */
const packageNote = /^(?:conda|pypi): ([^(]{1,80})/;

/** Joins small neighbours of the same origin, so that a stack of many layers can be seen. */
function slabsOf(layers: readonly StackedLayer[]): Slab[] {
  const sizes = layers.map(({ size }) => size).sort((one, other) => other - one);
  const small = layers.length <= mostSlabs ? -1 : (sizes[Math.floor(mostSlabs / 2)] ?? 0);
  const slabs: Slab[] = [];
  for (const { origin, size, by } of layers) {
    const last = slabs.at(-1);
    const isJoined =
      last?.origin === origin && size <= small && (last.count > 1 || last.size <= small);
    if (isJoined && last) {
      slabs[slabs.length - 1] = { ...last, size: last.size + size, count: last.count + 1 };
    } else {
      const note = origin === 'package' ? packageNote.exec(by ?? '')?.[1] : undefined;
      const name = note && withoutHidden(note.trim());
      slabs.push({ origin, size, count: 1, name });
    }
  }
  return slabs;
}

function countOf(count: number): string {
  return count === 1 ? '1 layer' : `${count} layers`;
}
