import type { LayerContents } from '../../../request/inspect/layer-files.ts';
import { layerName } from '../../../request/inspect/layer-names.ts';
import { byteText, countText, shortDigest } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import type { Page } from '../../frame/page-layout.ts';
import { shownText, visibleText } from '../../frame/shown-text.ts';
import { inspectPath } from '../image-template.ts';
import { shareBar } from '../share-bar.ts';
import { fileTable, layerChangeLinks } from './file-table.ts';
import { layerAddress } from './layer-address.ts';
import type { LayerData } from './layer-data.ts';
import { biggestFiles, privilegedFiles, wasteOfImage, wasteOfLayer } from './layer-tables.ts';

const refreshSeconds = 3;
const mostLinks = 300;

/** Returns the page of a layer. */
export function layerPage(data: LayerData): Page {
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
export function layerContent(data: LayerData): Html {
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
