import type { ContainerRequest } from '../../request/container-request.ts';
import { layerName } from '../../request/inspect/layer-names.ts';
import { shortName } from '../ask/use-commands.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoom } from '../frame/page-room.ts';
import { shownText, visibleLines, visibleText } from '../frame/shown-text.ts';
import { layerAddress } from '../images/layer/layer-address.ts';
import { configTable } from './config-table.ts';
import type { ContainerData, ContainerImage } from './container-data.ts';
import { factsPart } from './container-facts.ts';
import { pullsPart } from './container-pulls.ts';
import { buildPart, statePart } from './container-state.ts';
import { usePart } from './container-use.ts';
import { layerStack } from './layer-stack.ts';

const untilBuiltSeconds = 5;
const untilAnsweredSeconds = 3;

/** Returns the page of a container request. A script replaces the parts that have an id. */
export function containerPage(data: ContainerData, mayEnd: boolean, now: number): Page {
  const { request, source, state, image } = data;
  const isBuilding = state.kind === 'building';
  const isLate = image !== undefined && 'isLate' in image;
  const refreshSeconds = isBuilding ? untilBuiltSeconds : isLate ? untilAnsweredSeconds : undefined;
  const isLive = state.kind === 'ready' || isBuilding;
  const name = shortName(source);
  return {
    title: `Container ${visibleText(name, 80)}`,
    ...(refreshSeconds === undefined ? {} : { refreshSeconds, scripts: ['container'] }),
    content: html`<h1>Container <code>${shownText(name, 300)}</code></h1>
<div id="state" aria-live="polite">${statePart(data)}</div>
<div id="use">${state.kind !== 'ended' && state.kind !== 'failed' && usePart(data)}</div>
<div id="build">${buildPart(data, now)}</div>
<h2>The request</h2>
<div id="facts">${factsPart(data)}</div>
${state.kind !== 'frozen' && pullsPart(data.pulls)}
<div id="contents">${contentsPart(request, image)}</div>
${mayEnd && isLive && end(request)}
<p><a href="/">Ask for another container</a></p>`,
  };
}

function contentsPart(
  { token }: ContainerRequest,
  image: ContainerData['image'],
): Html | undefined {
  if (image === undefined) return undefined;
  if ('why' in image) {
    return html`<h2>Layers</h2><p class="failure"${image.isLate && html` data-late`}>${visibleLines(image.why)}</p>`;
  }
  return contents(token, image);
}

function contents(token: string, image: ContainerImage): Html {
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

function end({ token }: ContainerRequest): Html {
  return html`<h2>End</h2>
<p>After its end nobody can pull the name. This cannot be undone.</p>
<form method="post" action="/view/containers/${token}/end"><button class="danger">End this container</button></form>`;
}
