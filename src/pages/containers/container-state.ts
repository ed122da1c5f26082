import { statePart as buildStatePart, failureBox } from '../builds/build-state.ts';
import { failureOf } from '../builds/build-view.ts';
import { timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { ContainerData } from './container-data.ts';

/** Returns whether the name of a container can be pulled, in words. */
export function statePart({ state, request }: ContainerData): Html {
  const { expiresAt, buildId, isFrozen } = request;
  const build = buildId !== undefined && linkTo(buildId, 'the build');
  switch (state.kind) {
    case 'ready':
      return html`<p><span class="badge good">Ready</span> Everybody who has the name can pull it, until ${timeElement(expiresAt)}.</p>`;
    case 'frozen':
      return html`<p><span class="badge good">Ready</span> The image is in its repository, and the name does not expire.</p>`;
    case 'building': {
      const isWaiting = state.build.state === 'queued';
      const use = isFrozen
        ? 'The name can be pulled when the build has finished. It does not expire.'
        : html`You can use the name now: a pull waits for the build. The name expires at ${timeElement(expiresAt)}.`;
      return html`<p><span class="badge wait">${isWaiting ? 'Waiting' : 'Building'}</span> ${use}</p>`;
    }
    case 'failed':
      return html`<p><span class="badge bad">Build failed</span> Its name cannot be pulled${build && html`: see ${build}`}.</p>
${failureBox(failureOf(state.reason))}`;
    case 'ended':
      return html`<p><span class="badge bad">Ended</span> The name ended at ${timeElement(expiresAt)} and can no longer be pulled. Make a new container request to get a new name. To keep an image, freeze it.</p>`;
  }
}

/** Returns a running build as its own page shows it. Scripts follow its events. */
export function buildPart({ state }: ContainerData, now: number): Html | undefined {
  if (state.kind !== 'building') return undefined;
  const { id } = state.build;
  return html`<h2>Its build</h2>
<div data-build="${id}">${buildStatePart(state.build, now)}</div>
<p>${linkTo(id, 'The page of the build')} has its recipe and its log.</p>`;
}

function linkTo(id: string, text: string): Html {
  return html`<a href="/view/builds/${encodeURIComponent(id)}">${text}</a>`;
}
