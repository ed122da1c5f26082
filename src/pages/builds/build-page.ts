import { shortName } from '../ask/use-commands.ts';
import { html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { statePart } from './build-state.ts';
import type { BuildView } from './build-view.ts';
import { type ComparedBuild, comparePart } from './compare-part.ts';
import { type LogPage, logPart } from './log/log-part.ts';
import { recipePart } from './recipe/recipe-part.ts';

/** What one viewer may see and do beyond what everyone may. */
export interface ViewerPart {
  readonly mayCancel: boolean;
  /** Address of the form with this recipe; undefined for a recipe that does not fit into an address. */
  readonly again: string | undefined;
  /** Builds of the same image, the newest first, this one included; empty for viewers without a right to see them. */
  readonly compared: readonly ComparedBuild[];
  /** Address of the list of files that were sent with the recipe; undefined where there is none for the viewer. */
  readonly files: string | undefined;
  /** What the last action did. */
  readonly done: string | undefined;
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
${own.files !== undefined && html`<p><a href="${own.files}">Files of the build context</a></p>`}
${comparePart(own.compared, id)}
${logPart(view, log)}`,
  };
}
