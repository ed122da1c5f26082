import { type BuildPlan, recipeIn } from '../../builds/plan/build-plan.ts';
import { changesIn, type ImageChange } from '../../images/augment/image-change.ts';
import { countText, timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import { shownText } from '../frame/shown-text.ts';
import type { ContainerData } from './container-data.ts';

/** Returns what was requested, and what it became. */
export function factsPart({ request, source, state, plan }: ContainerData): Html {
  const { asked, fixed, createdAt, expiresAt, buildId, isBuilt, isFrozen, platform } = request;
  const isThere = state.kind === 'frozen' || state.kind === 'ready';
  const packages = packagesIn(plan);
  const inspected = isThere ? request.targetImage : undefined;
  return html`<dl class="facts">
<dt>${isBuilt && plan?.origin.kind !== 'image' ? 'Built image' : 'Base image'}</dt><dd><code>${shownText(source, 300)}</code>${fixed && html`<br><code class="minor">${fixed.base.digest}</code>`}</dd>
${fixed && html`<dt>Result</dt><dd>${fixed.served.digest === fixed.base.digest ? 'The same image, unchanged' : html`<code>${fixed.served.digest}</code>`}</dd>`}
${packages.length > 0 && html`<dt>Packages</dt><dd><code>${shownText(packages.join(', '), 600)}</code></dd>`}
<dt>Added</dt><dd>${added(request.isFrozen && plan ? plan.change : request.change)}</dd>
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
function added(change: ImageChange): string {
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
