import { scaleLinear } from 'd3-scale';
import { byteText, shortDigest } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import { foldedText, type PageRoom } from '../frame/page-room.ts';
import type { LayerOrigin, StackedLayer } from './container-data.ts';

/** Names of the origins, and what they mean. */
const origins: Readonly<Record<LayerOrigin, { readonly name: string; readonly about: string }>> = {
  injected: { name: 'injected', about: 'added by this request' },
  package: { name: 'packages', about: 'Conda packages' },
  built: { name: 'built', about: 'the image that the build made' },
  base: { name: 'base', about: 'of the base image' },
};

/** Layers that the picture shows as one slab. */
interface Slab {
  readonly origin: LayerOrigin;
  readonly size: number;
  readonly count: number;
}

const slabHeight = 28;
const gap = 3;
const widest = 55;
const mostSlabs = 24;

/**
 * Returns the stack of layers as a picture, the top layer first, its sums, and a table with the same.
 *
 * @param addressOf returns the address of the page of a layer; takes its position, the lowest layer first
 */
export function layerStack(
  layers: readonly StackedLayer[],
  room: PageRoom,
  addressOf: (at: number) => string | undefined,
): Html {
  const total = layers.reduce((sum, { size }) => sum + size, 0);
  if (layers.length === 0) return html`<p class="minor">The image has no layers.</p>`;
  const slabs = slabsOf(layers).reverse();
  const present = (Object.keys(origins) as LayerOrigin[]).filter(origin =>
    layers.some(layer => layer.origin === origin),
  );
  const sums = present.map(origin => {
    const own = layers.filter(layer => layer.origin === origin);
    const size = own.reduce((sum, layer) => sum + layer.size, 0);
    const { name, about } = origins[origin];
    return html`<li><svg class="swatch" width="16" height="16" aria-hidden="true"><rect class="slab ${origin}" width="16" height="16" rx="2"/></svg> <strong>${name}</strong>, ${about}: ${countOf(own.length)}, ${byteText(size)}</li>`;
  });
  const numbered = layers.map((layer, at) => ({ layer, number: at + 1 })).reverse();
  const { shown, left } = room.list(numbered, ({ layer, number }) =>
    row(layer, number, addressOf(number - 1)),
  );
  return html`<p>${countOf(layers.length)}, ${byteText(total)} compressed. The top layer is the first.</p>
<ul class="legend">${sums}</ul>
${picture(slabs)}
<details class="table"><summary>The layers as a table</summary>
<div class="wide" tabindex="0" role="region" aria-label="Layers"><table>
<thead><tr><th scope="col" class="number">Layer</th><th scope="col">Origin</th><th scope="col" class="number">Size</th><th scope="col">Made by</th><th scope="col">Digest</th></tr></thead>
<tbody>${shown}</tbody>
</table></div>${left > 0 && html`<p class="minor">${left} more are not shown.</p>`}</details>`;
}

function row(
  { origin, size, by, digest }: StackedLayer,
  number: number,
  address: string | undefined,
): Html {
  const name = address === undefined ? number : html`<a href="${address}">${number}</a>`;
  return html`<tr><td class="number">${name}</td><td>${origins[origin].name}</td><td class="number">${byteText(size)}</td><td class="made-by">${by === undefined ? html`<span class="minor">not recorded</span>` : html`${foldedText(by)}`}</td><td><code title="${digest}">${shortDigest(digest)}</code></td></tr>`;
}

function picture(slabs: readonly Slab[]): Html {
  const widthOf = scaleLinear([0, Math.max(1, ...slabs.map(({ size }) => size))], [0.6, widest]);
  const height = slabs.length * (slabHeight + gap);
  const bars = slabs.map(({ origin, size, count }, at) => {
    const y = at * (slabHeight + gap);
    const what = count === 1 ? origins[origin].name : `${count} × ${origins[origin].name}`;
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

/** Joins small neighbours of the same origin, so that a stack of many layers can be seen. */
function slabsOf(layers: readonly StackedLayer[]): Slab[] {
  const sizes = layers.map(({ size }) => size).sort((one, other) => other - one);
  const small = layers.length <= mostSlabs ? -1 : (sizes[Math.floor(mostSlabs / 2)] ?? 0);
  const slabs: Slab[] = [];
  for (const { origin, size } of layers) {
    const last = slabs.at(-1);
    const isJoined =
      last?.origin === origin && size <= small && (last.count > 1 || last.size <= small);
    if (isJoined && last) {
      slabs[slabs.length - 1] = { origin, size: last.size + size, count: last.count + 1 };
    } else slabs.push({ origin, size, count: 1 });
  }
  return slabs;
}

function countOf(count: number): string {
  return count === 1 ? '1 layer' : `${count} layers`;
}
