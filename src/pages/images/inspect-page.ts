import { z } from 'zod';
import type { Identities } from '../../platform/index.ts';
import { chooseImage, layerName, type OpenInspected } from '../../request/index.ts';
import type { RegistryClient } from '../../upstream/index.ts';
import {
  byteText,
  countText,
  foldedText,
  type Html,
  html,
  type PageRoom,
  pageRoom,
  safeAddress,
  shortDigest,
  timeElement,
  visibleText,
} from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';
import {
  type ConfigView,
  findReferrers,
  type HistoryStep,
  type ImageView,
  type LayerView,
  type Referrers,
  type ReferrerView,
  viewImage,
} from './image-view.ts';
import { layerAddress } from './layer/layer-data.ts';

export const inspectPath = '/view/inspect';

export interface InspectPageDeps {
  readonly openInspected: OpenInspected;
  readonly registry: RegistryClient;
  readonly credentialsOf: Identities['credentialsOf'];
}

/** The image and platform that a page is about. */
const imageQuery = z.object({
  image: z.string().max(1000).optional(),
  platform: z.string().max(200).optional(),
});

export const inspectPage = pageRoute({
  method: 'get',
  path: inspectPath,
  access: 'requests',
  limit: 'requests',
  query: imageQuery,
  async run({ viewer, query }, { openInspected, registry, credentialsOf }: InspectPageDeps) {
    const image = query.image?.trim();
    const platform = query.platform?.trim() || undefined;
    if (!image) return askForImage();
    const credentials = credentialsOf(viewer.caller.grant);
    const chosen = await chooseImage(openInspected, image, platform, credentials);
    const [view, referrers] = await Promise.all([
      viewImage(chosen),
      findReferrers(registry, chosen),
    ]);
    return imagePage(image, view, referrers);
  },
});

function addressOf(query: Readonly<Record<string, string>>): string {
  return `${inspectPath}?${new URLSearchParams(query)}`;
}

function askForImage(): Page {
  return {
    title: 'Look into an image',
    content: html`<h1>Look into an image</h1>
<p class="lead">Platforms, configuration, layers, signatures and bills of materials of any image that you may pull.</p>
${imageForm('')}`,
  };
}

function imageForm(image: string): Html {
  return html`<form method="get" action="${inspectPath}" class="inspect-form" role="search">
<label for="image">Image</label>
<div class="inspect-row"><input id="image" name="image" value="${image}" required spellcheck="false" autocapitalize="off" autocomplete="off" placeholder="docker.io/library/alpine:3.20">
<button>Look into it</button></div>
</form>`;
}

function imagePage(image: string, view: ImageView, referrers: Referrers): Page {
  const name = visibleText(image, 200);
  const room = pageRoom();
  return {
    title: name,
    content: html`${imageForm(image)}
<h1>${name}</h1>
${platformLinks(image, view)}
${overviewPart(view)}
${view.config && configurationPart(view.config, room)}
${view.config ? layerTable(image, view, room) : artifactFiles(view, room)}
${referrerTable(image, referrers, room)}
${textTable('Annotations', Object.entries(view.annotations), room)}`,
  };
}

function platformLinks(image: string, { platforms }: ImageView): Html | false {
  return (
    platforms.length > 0 &&
    html`<nav aria-label="Platforms" class="choices">${platforms.map(({ name, isChosen }) => {
      const address = addressOf({ image, platform: name });
      return html`<a href="${address}"${isChosen && html` aria-current="true"`}>${visibleText(name, 60)}</a>`;
    })}</nav>`
  );
}

function overviewPart(view: ImageView): Html {
  const { digest, indexDigest, mediaType, artifactType, layerBytes, layers, config } = view;
  return html`<dl class="facts">
${factRow('Digest', html`<code>${digest}</code>`)}
${indexDigest && factRow('Digest of all platforms', html`<code>${indexDigest}</code>`)}
${artifactType && factRow('Artifact', html`<code>${visibleText(artifactType, 200)}</code>`)}
${factRow('Size to pull', html`${byteText(layerBytes)} in ${countText(layers.length)} ${layers.length === 1 ? 'layer' : 'layers'}`)}
${config?.created && factRow('Created', dateOf(config.created))}
${config?.platform && factRow('Built for', visibleText(config.platform, 100))}
${factRow('Format', html`<code>${visibleText(mediaType, 200)}</code>`)}
</dl>`;
}

function factRow(name: string, value: Html | string): Html {
  return html`<dt>${name}</dt><dd>${value}</dd>`;
}

/** Builders that make equal images equal leave a date out in this way. */
const noDate = 0;

function dateOf(text: string): Html | string {
  const at = Date.parse(text);
  if (at === noDate) return 'not recorded';
  return Number.isNaN(at) ? visibleText(text, 60) : timeElement(at);
}

function configurationPart(config: ConfigView, room: PageRoom): Html {
  const words = (texts: readonly string[]) => foldedText(JSON.stringify(texts));
  const { entrypoint, command, user, workingDirectory, ports, volumes, healthCheck } = config;
  const environment = config.environment.map((entry): [string, string] => {
    const equals = entry.indexOf('=');
    return equals < 0 ? [entry, ''] : [entry.slice(0, equals), entry.slice(equals + 1)];
  });
  const facts: readonly (readonly [name: string, value: Html | string | undefined])[] = [
    ['Entrypoint', entrypoint.length > 0 ? words(entrypoint) : 'none'],
    ['Command', command.length > 0 ? words(command) : 'none'],
    ['User', user ? foldedText(user) : 'root'],
    ['Working directory', foldedText(workingDirectory ?? '/')],
    ['Ports', ports.length > 0 ? foldedText(ports.join(' ')) : undefined],
    ['Volumes', volumes.length > 0 ? foldedText(volumes.join(' ')) : undefined],
    ['Health check', healthCheck.length > 0 ? words(healthCheck) : undefined],
    ['Stop signal', config.stopSignal && foldedText(config.stopSignal)],
  ];
  const present = facts.flatMap(([name, value]) => (value ? [factRow(name, value)] : []));
  return html`<h2>Configuration</h2>
<dl class="facts">${room.list(present, one => one).shown}</dl>
${textTable('Environment', environment, room, 'h3')}
${textTable('Labels', config.labels, room, 'h3')}`;
}

function textTable(
  title: string,
  rows: readonly (readonly [name: string, value: string])[],
  room: PageRoom,
  level: 'h2' | 'h3' = 'h2',
): Html | false {
  if (rows.length === 0) return false;
  const heading = level === 'h2' ? html`<h2>${title}</h2>` : html`<h3>${title}</h3>`;
  const { shown, left } = room.list(
    rows,
    ([name, value]) => html`<dt>${foldedText(name)}</dt><dd>${textOrLink(value)}</dd>`,
  );
  return html`${heading}
<dl class="facts names">${shown}</dl>
${leftOut(left)}`;
}

function leftOut(count: number): Html | false {
  return (
    count > 0 &&
    html`<p class="minor">${countText(count)} more ${count === 1 ? 'is' : 'are'} not shown: the page would be too large.</p>`
  );
}

function textOrLink(text: string): Html {
  const address = text.length <= 400 ? safeAddress(text) : undefined;
  return address
    ? html`<a href="${address}" rel="noreferrer nofollow">${visibleText(text)}</a>`
    : foldedText(text);
}

function layerTable(
  image: string,
  { layers, history, layerBytes, platforms }: ImageView,
  room: PageRoom,
): Html {
  const largest = Math.max(1, ...layers.map(({ size }) => size));
  const platform = platforms.find(({ isChosen }) => isChosen)?.name;
  const digests = layers.map(({ digest }) => digest);
  const { shown, left } = room.list(history, step => {
    const layer = step.layer === undefined ? undefined : layers[step.layer - 1];
    const address =
      layer && layerAddress({ image, platform, layer: layerName(digests, layer.number - 1) });
    return stepRow(step, layer, address, layerBytes, largest);
  });
  return html`<h2 id="layers">History and layers</h2>
<p class="minor">From the lowest layer to the highest. A step without a layer changed the configuration only. Open a layer to see its files.</p>
<div class="wide" tabindex="0"><table class="layers">
<thead><tr><th scope="col">Step</th><th scope="col">Layer</th><th scope="col" class="number">Size</th><th scope="col">Share of ${byteText(layerBytes)}</th></tr></thead>
<tbody>${shown}</tbody>
</table></div>
${leftOut(left)}`;
}

function stepRow(
  { createdBy, comment, created = '' }: HistoryStep,
  layer: LayerView | undefined,
  address: string | undefined,
  total: number,
  largest: number,
): Html {
  const command = createdBy.replace(/^\/bin\/sh -c (?:#\(nop\)\s*)?/, '');
  const at = Date.parse(created);
  const isDated = !Number.isNaN(at) && at !== noDate;
  const what = html`<td class="step">${
    command === '' ? html`<span class="minor">No history</span>` : foldedText(command)
  }${comment && html`<div class="minor">${visibleText(comment, 200)}</div>`}${
    isDated && html`<div class="minor">${timeElement(at)}</div>`
  }</td>`;
  if (!layer || address === undefined) {
    return html`<tr class="unchanged">${what}<td class="minor">no layer</td><td></td><td></td></tr>`;
  }
  const { number, digest, size } = layer;
  const share = total > 0 ? size / total : 0;
  return html`<tr>${what}<td><a href="${address}">Layer ${number}</a><br><code class="minor" title="${digest}">${shortDigest(digest)}</code></td><td class="number">${byteText(size)}</td><td class="bar">${shareBar(size / largest)}<span class="minor">${shareText(share)}</span></td></tr>`;
}

function artifactFiles({ layers, layerBytes }: ImageView, room: PageRoom): Html {
  const largest = Math.max(1, ...layers.map(({ size }) => size));
  const { shown, left } = room.list(
    layers,
    ({ title, digest, mediaType, size }) =>
      html`<tr><td>${foldedText(title ?? shortDigest(digest))}</td><td><code>${visibleText(mediaType, 200)}</code></td><td class="number">${byteText(size)}</td><td class="bar">${shareBar(size / largest)}</td></tr>`,
  );
  return html`<h2>Files</h2>
<p class="minor">This is an artifact, not a container image: its layers are not files of a root file system.</p>
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">File</th><th scope="col">Type</th><th scope="col" class="number">Size</th><th scope="col">Share of ${byteText(layerBytes)}</th></tr></thead>
<tbody>${shown}</tbody></table></div>
${leftOut(left)}`;
}

function referrerTable(image: string, { found, isPartial }: Referrers, room: PageRoom): Html {
  const missing =
    isPartial &&
    html`<p class="minor">The registry did not list all of them: reload the page to ask again.</p>`;
  if (found.length === 0) {
    return html`<h2>Signatures and attestations</h2>
${missing || html`<p class="minor">Nothing refers to this image: no signature, no bill of materials, no provenance.</p>`}`;
  }
  const { shown, left } = room.list(found, referrer => referrerRow(image, referrer));
  return html`<h2>Signatures and attestations</h2>
${missing}
<div class="wide" tabindex="0"><table>
<thead><tr><th scope="col">What</th><th scope="col">Type</th><th scope="col">Digest</th><th scope="col" class="number">Size</th></tr></thead>
<tbody>${shown}</tbody></table></div>
${leftOut(left)}`;
}

function referrerRow(image: string, { kind, type, digest, size, annotations }: ReferrerView): Html {
  const repository = image.replace(/@.*$/s, '').replace(/:[^/:]*$/, '');
  const address = addressOf({ image: `${repository}@${digest}` });
  const notes = Object.entries(annotations).slice(0, 20);
  return html`<tr><td>${kind}</td><td><code>${visibleText(type, 200)}</code>${notes.map(
    ([name, value]) =>
      html`<br><span class="minor"><code>${visibleText(name, 100)}</code> ${visibleText(value, 200)}</span>`,
  )}</td><td><a href="${address}"><code title="${digest}">${shortDigest(digest)}</code></a></td><td class="number">${size === undefined ? '' : byteText(size)}</td></tr>`;
}

/** Returns a bar that shows a share, from 0 to 1. */
export function shareBar(share: number): Html {
  const width = Math.max(share > 0 ? 1 : 0, Math.round(share * 1000) / 10);
  return html`<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false"><rect class="ground" width="100" height="8"/><rect class="part" width="${width}" height="8"/></svg>`;
}

/** Returns a share, from 0 to 1, in percent: `4.2 %`, `37 %`. */
export function shareText(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}
