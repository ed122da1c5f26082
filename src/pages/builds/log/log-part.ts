import type { LogLine } from '../../../builds/index.ts';
import { countText, withoutHidden } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import type { BuildView } from '../build-view.ts';
import { colouredText } from './coloured-text.ts';
import { type Fold, foldsPart } from './log-folds.ts';
import { linesAtOnce, linesPart } from './shown-lines.ts';

/** What part of a log is shown. */
export interface LogPage {
  /** Only the lines of this step. */
  readonly step: number | undefined;
  /** Number of lines that can be shown. */
  readonly total: number;
  /** Position of the first shown line, counted from 0. */
  readonly from: number;
  readonly lines: readonly LogLine[];
  /** The log by its steps; undefined to show it line by line. */
  readonly folds: readonly Fold[] | undefined;
  readonly search: { readonly text: string; readonly found: readonly LogLine[] } | undefined;
}

export const mostFound = 200;
const foundLimits = { chars: 300, colours: 10 };

/** Returns the log of a build: a page of it, links to the others, and what scripts need to scroll through it. */
export function logPart(view: BuildView, page: LogPage): Html {
  const { id, steps } = view;
  const { step, search, folds } = page;
  const numbered = steps.filter(({ number }) => number !== undefined);
  return html`<h2 id="log">Log</h2>
<form class="tools" method="get" action="/view/builds/${id}#log">
<div><label for="find">Find in the log</label><input id="find" name="find" type="search" maxlength="200" value="${search?.text ?? ''}"></div>
${
  numbered.length > 0 &&
  html`<div><label for="step">Step</label><select id="step" name="step"><option value="">All steps</option>${numbered.map(
    one =>
      html`<option value="${one.number}"${one.number === step && html` selected`}>#${one.number} ${withoutHidden(one.name.slice(0, 80))}</option>`,
  )}</select></div>`
}
<button class="quiet">Show</button>
<a class="button quiet" href="/v1alpha1/builds/${id}/logs" download="${id}.log">Download</a>
</form>
${search && foundPart(id, search)}
${numbered.length > 0 && viewsPart(id, folds !== undefined)}
${(step !== undefined || folds) && view.lines?.hasAllOfSteps === false && lackPart(id)}
${folds ? foldsPart(view, folds) : linesBox(view, page)}`;
}

function lackPart(id: string): Html {
  return html`<p class="minor">The steps write in turns so often that their last lines are not sorted by step. <a href="/view/builds/${id}#log">The log line by line</a> has them.</p>`;
}

function viewsPart(id: string, isBySteps: boolean): Html {
  const link = (query: string, text: string, isHere: boolean) =>
    html`<a href="/view/builds/${id}${query}#log"${isHere && html` aria-current="page"`}>${text}</a>`;
  return html`<nav class="views" aria-label="Views of the log">${link('', 'Line by line', !isBySteps)} ${link('?view=steps', 'Step by step', isBySteps)}</nav>`;
}

function linesBox({ id, lines, state }: BuildView, page: LogPage): Html {
  const { step, total, from } = page;
  const isOver = state === 'succeeded' || state === 'failed';
  return html`${
    total === 0
      ? html`<p class="minor">${lines === undefined && isOver ? 'The log is not kept any more.' : 'The log is empty.'}</p>`
      : html`<p class="pages">${pagesPart(id, page)}</p>`
  }
<div class="log" id="lines" tabindex="0" role="region" aria-label="Lines of the log" data-build="${id}" data-total="${total}" data-from="${from}"${step !== undefined && html` data-step="${step}"`}${!isOver && html` data-live`}><div class="sheet">${linesPart(page.lines)}</div></div>`;
}

function foundPart(id: string, { text, found }: NonNullable<LogPage['search']>): Html {
  if (found.length === 0) return html`<p>No line contains “${text}”.</p>`;
  const count =
    found.length >= mostFound ? `The first ${mostFound} lines` : countText(found.length);
  return html`<p>${count} ${found.length === 1 ? 'line contains' : 'lines contain'} “${text}”:</p>
<ol class="found">${found.map(
    line =>
      html`<li><a href="/view/builds/${id}?line=${line.number}#L${line.number}">Line ${line.number}</a> <code>${colouredText(line, foundLimits)}</code></li>`,
  )}</ol>`;
}

function pagesPart(id: string, { total, from, lines, step }: LogPage): Html {
  const last = Math.max(0, total - linesAtOnce);
  const link = (to: number, text: string) => {
    const filter = step === undefined ? '' : `&step=${step}`;
    return html` <a href="/view/builds/${id}?from=${to + 1}${filter}#log">${text}</a>`;
  };
  const until = from + lines.length;
  return html`<span id="shown">Lines ${countText(from + 1)} to ${countText(until)} of ${countText(total)}</span>${
    from > 0 && html`${link(0, 'First')}${link(Math.max(0, from - linesAtOnce), 'Earlier')}`
  }${until < total && html`${link(Math.min(until, last), 'Later')}${link(last, 'Last')}`}`;
}
