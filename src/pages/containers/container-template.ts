import { changesIn } from '../../images/augment/image-change.ts';
import type { ContainerRequest } from '../../request/container-request.ts';
import { useCommands } from '../ask/use-commands.ts';
import { countText, timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { shownText, visibleLines, visibleText } from '../frame/shown-text.ts';
import { configTable } from './config-table.ts';
import type { ContainerData, ContainerImage } from './container-data.ts';
import { layerStack } from './layer-stack.ts';

const untilBuiltSeconds = 5;
const untilAnsweredSeconds = 3;

/** Returns the page of a container request. */
export function containerPage(data: ContainerData, isAdministrator: boolean): Page {
  const { request, source, state, image } = data;
  const isWaiting = state.kind === 'waiting' || state.kind === 'running';
  const isLate = image !== undefined && 'isLate' in image;
  const refreshSeconds = isWaiting ? untilBuiltSeconds : isLate ? untilAnsweredSeconds : undefined;
  const isLive = state.kind === 'ready' || isWaiting;
  return {
    title: visibleText(source, 80),
    ...(refreshSeconds === undefined ? {} : { refreshSeconds }),
    content: html`<h1>${shownText(source, 300)}</h1>
${stateText(data)}
${state.kind !== 'ended' && state.kind !== 'failed' && use(data)}
<h2>The request</h2>
${facts(data)}
${image !== undefined && ('why' in image ? html`<h2>Layers</h2><p class="failure">${visibleLines(image.why)}</p>` : contents(request, image))}
${isAdministrator && isLive && end(request)}`,
  };
}

function stateText({ state, request }: ContainerData): Html {
  const { expiresAt, buildId, targetImage } = request;
  switch (state.kind) {
    case 'ready':
      return html`<p><span class="badge good">Ready</span> The name can be pulled until ${timeElement(expiresAt)}.</p>`;
    case 'frozen':
      return html`<p><span class="badge good">Frozen</span> The image has a name of its own, which does not expire.</p>`;
    case 'waiting':
      return html`<p><span class="badge wait">Waiting</span> The image is not built yet. Its build waits for ${state.for}. A pull waits a little for it.</p>`;
    case 'running':
      return html`<p><span class="badge wait">Building</span> The image is being built. A pull waits a little for it.</p>`;
    case 'failed':
      return html`<p><span class="badge bad">Build failed</span> The name ${shownText(targetImage, 300)} cannot be pulled${buildId !== undefined && html`: see <a href="/view/builds/${encodeURIComponent(buildId)}">the build</a>`}.</p>
<p class="failure">${visibleLines(state.reason)}</p>`;
    case 'ended':
      return html`<p><span class="badge bad">Ended</span> The name can no longer be pulled since ${timeElement(expiresAt)}. Make a new container request to get a new name. To keep an image, freeze it.</p>`;
  }
}

function use({ request, isPlainHttp }: ContainerData): Html {
  const { targetImage } = request;
  const commands = useCommands({ name: targetImage, isPlainHttp });
  return html`<div class="copy"><pre class="name">${targetImage}</pre></div>
<details><summary>Commands for ${commands.map(({ client }) => client).join(', ')}</summary>
${commands.map(({ client, text, note }) => html`<p class="client">${client}</p>${note !== undefined && html`<p class="hint">${note}</p>`}<div class="copy"><pre>${text}</pre></div>`)}
</details>`;
}

function facts({ request, source, state }: ContainerData): Html {
  const { fixed, createdAt, expiresAt, buildId, isBuilt, isFrozen, platform } = request;
  const inspected = isFrozen || state.kind === 'ready' ? request.targetImage : undefined;
  return html`<dl class="facts">
<dt>${isBuilt ? 'Built image' : 'Base image'}</dt><dd><code>${shownText(source, 300)}</code>${fixed && html`<br><code class="minor">${fixed.base.digest}</code>`}</dd>
${fixed && html`<dt>Result</dt><dd>${fixed.served.digest === fixed.base.digest ? 'The same image, unchanged' : html`<code>${fixed.served.digest}</code>`}</dd>`}
<dt>Added</dt><dd>${added(request)}</dd>
${platform !== undefined && html`<dt>Platform</dt><dd>${shownText(platform, 80)}</dd>`}
${buildId !== undefined && html`<dt>Build</dt><dd><a href="/view/builds/${encodeURIComponent(buildId)}">${shownText(buildId, 120)}</a></dd>`}
${inspected !== undefined && html`<dt>Contents</dt><dd><a href="/view/inspect?image=${encodeURIComponent(inspected)}">What is in the image</a></dd>`}
<dt>Requested</dt><dd>${timeElement(createdAt)}</dd>
${!isFrozen && html`<dt>${state.kind === 'ended' ? 'Ended' : 'Ends'}</dt><dd>${timeElement(expiresAt)}</dd>`}
</dl>`;
}

/** Returns what the request adds to its image, in words. */
function added({ change }: ContainerRequest): string {
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

function contents({ token }: ContainerRequest, image: ContainerImage): Html {
  const { platforms, platform, layers, config } = image;
  const choices = platforms.map(
    one =>
      html`<li>${one === platform ? html`<strong aria-current="true">${visibleText(one, 80)}</strong>` : html`<a href="/view/containers/${token}?platform=${encodeURIComponent(one)}#layers">${visibleText(one, 80)}</a>`}</li>`,
  );
  return html`<h2 id="layers">Layers</h2>
${platforms.length > 1 && html`<nav aria-label="Platforms"><ul class="choices">${choices}</ul></nav>`}
${layerStack(layers)}
<h2>Configuration</h2>
${configTable(config)}`;
}

function end({ token }: ContainerRequest): Html {
  return html`<h2>End</h2>
<p>After its end nobody can pull the name. This cannot be undone.</p>
<form method="post" action="/view/containers/${token}/end"><button class="danger">End this container</button></form>`;
}
