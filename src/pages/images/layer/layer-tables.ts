import type {
  ImageWaste,
  LayerWaste,
  WastedPath,
} from '../../../images/listing/comparing/image-waste.ts';
import type { LayerContents } from '../../../request/inspect/layer-files.ts';
import { directoryOfKey, keyText, layerName } from '../../../request/inspect/layer-names.ts';
import { byteText, countText } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import { shownText } from '../../frame/shown-text.ts';
import { shareBar, shareText } from '../share-bar.ts';
import { layerAddress, listedAddress } from './layer-address.ts';
import type { LayerData } from './layer-data.ts';

const mostPath = 160;

/** Returns the biggest files of the layer. */
export function biggestFiles(data: LayerData, { index }: LayerContents): Html | false {
  const { biggest } = index;
  if (biggest.length === 0) return false;
  const largest = Math.max(1, biggest[0]?.bytes ?? 1);
  return html`<section><h2>Biggest files</h2>
<div class="wide" tabindex="0" role="region" aria-label="Biggest files"><table class="files">
<thead><tr><th scope="col">File</th><th scope="col" class="number">Size</th><td></td></tr></thead>
<tbody>${biggest.map(({ key, bytes }) => html`<tr><th scope="row">${placeLink(data, key)}</th><td class="number">${byteText(bytes)}</td><td class="bar">${shareBar(bytes / largest)}</td></tr>`)}</tbody></table></div></section>`;
}

/** Returns the programs that run with rights that their user may not have. */
export function privilegedFiles(data: LayerData, { index }: LayerContents): Html | false {
  const { privileged } = index;
  if (privileged.length === 0) return false;
  return html`<section><h2 id="rights">Programs with extra rights</h2>
<p class="minor">Each has setuid, setgid or capabilities: it may do more than the user that starts it.</p>
<ul class="paths">${privileged.map(key => html`<li>${placeLink(data, key)}</li>`)}</ul></section>`;
}

/** Returns what the layer stores in vain. */
export function wasteOfLayer(data: LayerData, { bytes, wasted, top }: LayerWaste): Html {
  if (wasted === 0) {
    return html`<section><h2>Wasted in this layer</h2><p class="minor">No later layer replaces or removes a file of this layer.</p></section>`;
  }
  const share = bytes > 0 ? wasted / bytes : 0;
  return html`<section><h2>Wasted in this layer</h2>
<p>${byteText(wasted)} of ${byteText(bytes)}, ${shareText(share)}: later layers replace or remove these files, but every pull fetches them.</p>
${wasteTable(top, path => placeLink(data, path.key), 'Wasted in this layer')}</section>`;
}

/** Returns what the whole image stores in vain. */
export function wasteOfImage(data: LayerData, { bytes, wasted, top, layers }: ImageWaste): Html {
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
