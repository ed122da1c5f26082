import { z } from 'zod';
import { clientSignal } from '../../../http/index.ts';
import {
  type ImageWaste,
  type LayerWaste,
  layerChanges,
  type WastedPath,
} from '../../../images/listing/index.ts';
import type { Identities } from '../../../platform/index.ts';
import {
  directoryOfKey,
  keyText,
  type LayerContents,
  type LayerFilesDeps,
  layerName,
} from '../../../request/index.ts';
import {
  byteText,
  countText,
  type Html,
  html,
  shortDigest,
  shownText,
  visibleText,
} from '../../frame/html.ts';
import { orAbsent } from '../../frame/list-controls.ts';
import type { Page } from '../../frame/page-layout.ts';
import { pageRoute } from '../../frame/page-route.ts';
import { inspectPath, shareBar, shareText } from '../inspect-page.ts';
import { fileTable, layerChangeLinks } from './file-table.ts';
import { type LayerData, layerAddress, layerData, layerPath, listedAddress } from './layer-data.ts';

export interface LayerPageDeps extends LayerFilesDeps {
  readonly credentialsOf: Identities['credentialsOf'];
}

const layerQuery = z.object({
  image: z.string().max(1000).optional(),
  platform: z.string().max(200).optional(),
  layer: z.string().max(200).optional(),
  path: z.string().max(12_500).optional(),
  name: z.string().max(200).optional(),
  sort: orAbsent(z.enum(['size', 'name'])),
  change: orAbsent(z.enum(layerChanges)),
  page: orAbsent(z.coerce.number().int().min(1).max(10_000)),
  /** `content` asks for the part of the page that changes while the layer is read. */
  part: z.enum(['content']).optional(),
});

/** The page of a layer: who may pull the image may see what is in it. */
export const layerPages = [
  pageRoute({
    method: 'get',
    path: layerPath,
    access: 'requests',
    limit: 'requests',
    query: layerQuery,
    async run({ ctx, viewer, query }, deps: LayerPageDeps) {
      const { image = '', platform, layer = '', part, ...shown } = query;
      if (image.trim() === '' || layer === '') {
        const search = image.trim() === '' ? '' : `?${new URLSearchParams({ image })}`;
        return { location: `${inspectPath}${search}` };
      }
      const address = {
        image: image.trim(),
        platform: platform?.trim() || undefined,
        layer,
        ...shown,
        name: shown.name?.trim() || undefined,
      };
      const { user, network, address: ip, grant } = viewer.caller;
      const caller = user ?? network ?? ip;
      const data = await layerData(
        address,
        { credentials: deps.credentialsOf(grant), caller, signal: clientSignal(ctx.res) },
        deps,
      );
      return part === 'content' ? { piece: layerContent(data) } : layerPage(data);
    },
  }),
];

const refreshSeconds = 3;
const mostLinks = 300;

function layerPage(data: LayerData): Page {
  const { address, layer, digests } = data;
  const image = visibleText(address.image, 200);
  const query = {
    image: address.image,
    ...(address.platform ? { platform: address.platform } : {}),
  };
  return {
    title: `Layer ${layer.number} of ${visibleText(address.image, 80)}`,
    scripts: ['layer'],
    ...(data.progress ? { refreshSeconds } : {}),
    content: html`<p class="trail"><a href="${inspectPath}?${String(new URLSearchParams(query))}#layers"><bdi>${image}</bdi></a></p>
<h1>Layer ${layer.number} of ${digests.length}</h1>
${otherLayers(data)}
<dl class="facts">
${data.createdBy !== '' && html`<dt>Step</dt><dd><code>${shownText(withoutShell(data.createdBy), 600)}</code></dd>`}
<dt>Digest</dt><dd><code>${layer.digest}</code></dd>
<dt>Size to pull</dt><dd>${byteText(layer.size)}</dd>
<dt>Format</dt><dd><code>${visibleText(layer.mediaType, 200)}</code></dd>
</dl>
<div id="layer-content">${layerContent(data)}</div>`,
  };
}

function withoutShell(command: string): string {
  return command.replace(/^\/bin\/sh -c (?:#\(nop\)\s*)?/, '');
}

function otherLayers({ digests, layer, address }: LayerData): Html | false {
  if (digests.length < 2) return false;
  const { image, platform } = address;
  const links = digests.slice(0, mostLinks).map((digest, at) => {
    const href = layerAddress({ image, platform, layer: layerName(digests, at) });
    const isShown = at + 1 === layer.number;
    return html`<a href="${href}" title="${shortDigest(digest)}"${isShown && html` aria-current="true"`}><span class="unseen">Layer </span>${at + 1}</a>`;
  });
  return html`<nav aria-label="Layers of the image, the lowest first" class="choices">${links}</nav>`;
}

/** Returns the part of the page that changes while the layer is read. */
function layerContent(data: LayerData): Html {
  const { contents, failure, waste, layer } = data;
  const own = waste?.layers[layer.number - 1];
  return html`${progressOf(data)}
${failure !== undefined && html`<p class="failure">${contents ? 'The layers are not compared. ' : 'The files of this layer cannot be shown. '}${visibleText(failure, 1000)}</p>`}
${
  contents &&
  html`${summary(data, contents)}
${fileTable(data, contents)}
${waste && own && wasteOfLayer(data, own)}
${biggestFiles(data, contents)}
${privilegedFiles(data, contents)}
${waste && wasteOfImage(data, waste)}`
}`;
}

function progressOf({ progress, digests, layer, contents }: LayerData): Html | false {
  if (!progress) return false;
  const { isWaiting, layer: read, bytes, layersDone } = progress;
  const isOwn = read === layer.number - 1 && !contents;
  const share = isOwn && layer.size > 0 ? bytes / layer.size : layersDone / digests.length;
  const what = isWaiting
    ? 'Waiting for the layers of other requests.'
    : isOwn
      ? `Reading the layer: ${byteText(bytes)} of ${byteText(layer.size)}.`
      : read === undefined
        ? 'Comparing the layers.'
        : `Reading the other layers to compare them: ${layersDone} of ${digests.length} are read.`;
  return html`<p class="reading" role="status" data-moving>${shareBar(isWaiting ? 0 : share)}${what}</p>`;
}

function summary(data: LayerData, { root, index }: LayerContents): Html {
  const { bytes, files, goneFiles, goneBytes } = root;
  const { isCompared, waste, layer } = data;
  const wasted = waste?.layers[layer.number - 1]?.wasted ?? 0;
  return html`<dl class="figures">
<div><dt>Files</dt><dd>${countText(files)}</dd></div>
<div><dt>Unpacked</dt><dd>${byteText(bytes)}</dd></div>
${isCompared && html`<div><dt>Removes from below</dt><dd>${byteText(goneBytes)}<span class="minor"> ${countText(goneFiles)} files</span></dd></div>`}
${waste && html`<div><dt>Wasted in this layer</dt><dd>${byteText(wasted)}</dd></div>`}
${index.privileged.length > 0 && html`<div><dt>With extra rights</dt><dd><a href="#rights">${countText(index.privileged.length)}</a></dd></div>`}
</dl>
${isCompared && layerChangeLinks(data, root)}`;
}

const mostPath = 160;

function biggestFiles(data: LayerData, { index }: LayerContents): Html | false {
  const { biggest } = index;
  if (biggest.length === 0) return false;
  const largest = Math.max(1, biggest[0]?.bytes ?? 1);
  return html`<section><h2>Biggest files</h2>
<div class="wide" tabindex="0" role="region" aria-label="Biggest files"><table class="files">
<thead><tr><th scope="col">File</th><th scope="col" class="number">Size</th><td></td></tr></thead>
<tbody>${biggest.map(({ key, bytes }) => html`<tr><th scope="row">${placeLink(data, key)}</th><td class="number">${byteText(bytes)}</td><td class="bar">${shareBar(bytes / largest)}</td></tr>`)}</tbody></table></div></section>`;
}

/** Returns the programs that run with rights that their user may not have. */
function privilegedFiles(data: LayerData, { index }: LayerContents): Html | false {
  const { privileged } = index;
  if (privileged.length === 0) return false;
  return html`<section><h2 id="rights">Programs with extra rights</h2>
<p class="minor">Each has setuid, setgid or capabilities: it may do more than the user that starts it.</p>
<ul class="paths">${privileged.map(key => html`<li>${placeLink(data, key)}</li>`)}</ul></section>`;
}

/** Returns what the layer stores in vain. */
function wasteOfLayer(data: LayerData, { bytes, wasted, top }: LayerWaste): Html {
  if (wasted === 0) {
    return html`<section><h2>Wasted in this layer</h2><p class="minor">No later layer replaces or removes a file of this layer.</p></section>`;
  }
  const share = bytes > 0 ? wasted / bytes : 0;
  return html`<section><h2>Wasted in this layer</h2>
<p>${byteText(wasted)} of ${byteText(bytes)}, ${shareText(share)}: later layers replace or remove these files, but every pull fetches them.</p>
${wasteTable(top, path => placeLink(data, path.key), 'Wasted in this layer')}</section>`;
}

/** Returns what the whole image stores in vain. */
function wasteOfImage(data: LayerData, { bytes, wasted, top, layers }: ImageWaste): Html {
  const share = bytes > 0 ? wasted / bytes : 0;
  const { image, platform } = data.address;
  const largest = Math.max(1, ...layers.map(layer => layer.bytes));
  return html`<section><h2>Wasted in the whole image</h2>
<p>${byteText(wasted)} of ${byteText(bytes)} unpacked, ${shareText(share)}. ${wasted > 0 ? 'Remove files in the step that makes them, and copy files with their final mode and owner.' : 'No layer replaces or removes a file of another.'}</p>
${wasted > 0 && wasteTable(top, ({ key }) => html`<code>${shownText(keyText(key), mostPath)}</code>`, 'Wasted in the whole image')}
<details class="table"><summary>Every layer</summary><div class="wide" tabindex="0" role="region" aria-label="Waste of every layer"><table class="files">
<thead><tr><th scope="col">Layer</th><th scope="col" class="number">Unpacked</th><th scope="col" class="number">Wasted</th><td></td></tr></thead>
<tbody>${layers.map((layer, at) => html`<tr><th scope="row"><a href="${layerAddress({ image, platform, layer: layerName(data.digests, at) })}">Layer ${at + 1}</a></th><td class="number">${byteText(layer.bytes)}</td><td class="number">${byteText(layer.wasted)}</td><td class="bar">${shareBar(layer.wasted / largest)}</td></tr>`)}</tbody></table></div></details></section>`;
}

function wasteTable(
  top: readonly WastedPath[],
  place: (path: WastedPath) => Html,
  label: string,
): Html {
  const largest = Math.max(1, top[0]?.bytes ?? 1);
  return html`<div class="wide" tabindex="0" role="region" aria-label="${label}"><table class="files">
<thead><tr><th scope="col">File</th><th scope="col" class="number">Wasted</th><td></td><th scope="col" class="number">Times</th></tr></thead>
<tbody>${top.map(path => html`<tr><th scope="row">${place(path)}</th><td class="number">${byteText(path.bytes)}</td><td class="bar">${shareBar(path.bytes / largest)}</td><td class="number">${countText(path.times)}</td></tr>`)}</tbody></table></div>`;
}

/** Returns the path of a file, with a link to its directory. */
function placeLink({ address }: LayerData, key: string): Html {
  const { image, platform, layer } = address;
  const href = listedAddress({ image, platform, layer, path: directoryOfKey(key) });
  const text = shownText(keyText(key), mostPath);
  return html`<code>${href ? html`<a href="${href}#files">${text}</a>` : text}</code>`;
}
