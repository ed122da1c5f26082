import { shortName } from '../ask/use-commands.ts';
import { durationText, timeElement } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { statePart } from './build-state.ts';
import type { BuildView } from './build-view.ts';
import { type LogPage, logPart } from './log/log-part.ts';
import { recipePart } from './recipe/recipe-part.ts';

/** What one viewer may see and do beyond what everyone may. */
export interface ViewerPart {
  readonly mayCancel: boolean;
  /** Address of the form with this recipe; undefined for a recipe that does not fit into an address. */
  readonly again: string | undefined;
  /** Builds of the same image, the newest first, this one included; empty for viewers without a right to see them. */
  readonly compared: readonly ComparedBuild[];
  /** What the last action did. */
  readonly done: string | undefined;
}

export interface ComparedBuild {
  readonly id: string;
  readonly createdAt: number;
  readonly state: string;
  /** Run time in ms; undefined for an unfinished build. */
  readonly tookMs: number | undefined;
}

// Seconds between two looks of a browser without scripts.
const refreshSeconds = 5;

/** Returns the page of a build. */
export function buildPage(view: BuildView, log: LogPage, own: ViewerPart, now: number): Page {
  const { id, image, state } = view;
  const isOver = state === 'succeeded' || state === 'failed';
  return {
    title: `Build of ${shortName(image.name)}`,
    scripts: ['build'],
    ...(isOver ? {} : { refreshSeconds }),
    content: html`<h1>Build of <code>${shortName(image.name)}</code></h1>
<p class="minor id"><code>${id}</code></p>
${own.done !== undefined && html`<p class="notice" role="status">${own.done}</p>`}
<div class="actions">${
      !isOver &&
      own.mayCancel &&
      html`<form method="post" action="/view/builds/${id}/cancel" id="cancel"><button class="danger">Cancel the build</button></form>`
    }${own.again !== undefined && html`<a class="button quiet" href="${own.again}">Build again…</a>`}</div>
<div id="state">${statePart(view, now)}</div>
<div id="recipe">${recipePart(view.recipe)}</div>
${comparePart(own.compared, id)}
${logPart(view, log)}`,
  };
}

const width = 1000;

function comparePart(builds: readonly ComparedBuild[], own: string): Html | undefined {
  if (builds.length < 2) return undefined;
  const longest = Math.max(1, ...builds.map(({ tookMs = 0 }) => tookMs));
  return html`<h2>Builds of the same image</h2>
<div class="wide"><table class="steps"><thead><tr><th scope="col">Requested</th><th scope="col" class="span">Time</th><th scope="col">State</th><th scope="col" class="number">Duration</th></tr></thead><tbody>${builds.map(
    ({ id, createdAt, state, tookMs }) => {
      const length = ((tookMs ?? 0) / longest) * width;
      const label = timeElement(createdAt);
      return html`<tr${id === own && html` class="own"`}><th scope="row">${
        id === own ? html`${label} (this one)` : html`<a href="/view/builds/${id}">${label}</a>`
      }</th><td class="span"><svg viewBox="0 0 ${width} 12" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="${width}" height="12"/><rect class="${state === 'failed' ? 'failed' : 'done'}" width="${length.toFixed(1)}" height="12"/></svg></td><td>${state}</td><td class="number">${tookMs !== undefined && durationText(tookMs)}</td></tr>`;
    },
  )}</tbody></table></div>`;
}
