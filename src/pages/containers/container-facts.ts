import { changesIn } from '../../images/augment/image-change.ts';
import type { ContainerRequest } from '../../request/container-request.ts';
import { countText, timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import { shownText } from '../frame/shown-text.ts';
import type { ContainerData } from './container-data.ts';

/** Returns what was requested, and what it became. */
export function factsPart({ request, source, state }: ContainerData): Html {
  const { fixed, createdAt, expiresAt, buildId, isBuilt, isFrozen, platform } = request;
  const isThere = state.kind === 'frozen' || state.kind === 'ready';
  const inspected = isThere ? request.targetImage : undefined;
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
