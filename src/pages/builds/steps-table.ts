import { scaleLinear } from 'd3-scale';
import { durationText, withoutHidden } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { BuildView } from './build-view.ts';
import type { ShownStep } from './shown-step.ts';

/** Words for the state of a step. */
export const stepWords: Readonly<Record<ShownStep['state'], string>> = {
  running: 'running',
  done: 'done',
  cached: 'cached',
  failed: 'failed',
  cancelled: 'cancelled',
};

const badges = { failed: 'bad', running: 'wait', done: 'good', cached: '', cancelled: '' };

/** Returns the state of a step as a word in its colour. */
export function stepBadge({ state }: Pick<ShownStep, 'state'>): Html {
  return html`<span class="badge ${badges[state]}">${stepWords[state]}</span>`;
}

const leastOfName = 80;
const mostOfNames = 30_000;

/** Returns the names of steps, shorter where there are many steps: they are whatever a recipe says. */
export function stepNames(steps: readonly Pick<ShownStep, 'name'>[]): (name: string) => string {
  const most = Math.max(leastOfName, Math.floor(mostOfNames / Math.max(steps.length, 1)));
  return name => withoutHidden(name.length > most ? `${name.slice(0, most)}…` : name);
}

// Units across the picture; it is stretched to the width of its cell.
const width = 1000;
const height = 12;
/** The shortest bar that one can see, in units. */
const shortest = 4;

/** Returns the steps of a build as a table, with a time line in each row. Steps side by side ran at the same time. */
export function stepsTable(view: BuildView, now: number): Html {
  const { steps, isFromLog, state, id } = view;
  if (steps.length === 0) {
    const words = state === 'queued' || state === 'running' ? 'No step has begun.' : 'No step ran.';
    return html`<p class="minor">${words}</p>`;
  }
  const nameOf = stepNames(steps);
  const begin = Math.min(...steps.map(({ startedAt }) => startedAt ?? Number.POSITIVE_INFINITY));
  const end = Math.max(...steps.map(({ endedAt, startedAt }) => endedAt ?? startedAt ?? 0));
  const isRunning = steps.some(step => step.state === 'running');
  const scale = scaleLinear([0, Math.max(isRunning ? now - begin : end - begin, 1)], [0, width]);
  // Round limits: the picture of a running build changes with its steps, and not all the time.
  if (isRunning) scale.nice(4);
  const [, whole = 0] = scale.domain();
  return html`<div class="wide"><table class="steps">
<thead><tr><th scope="col">Step</th>${
    !isFromLog &&
    html`<th scope="col" class="span"><span class="ends"><span>Time</span><span>${durationText(whole)}</span></span></th>`
  }<th scope="col">State</th><th scope="col" class="number">Duration</th></tr></thead>
<tbody>${steps.map(step => row(step))}</tbody>
</table></div>`;

  function row(step: ShownStep): Html {
    const { number, spentMs, error } = step;
    const name = nameOf(step.name);
    const label =
      number === undefined
        ? name
        : html`<a href="/view/builds/${id}?step=${number}#log">#${number}</a> ${name}`;
    return html`<tr class="${step.state}"${number !== undefined && html` data-step="${number}"`}><th scope="row"><span class="name" title="${name}">${label}</span></th>${
      !isFromLog && html`<td class="span">${bar(step)}</td>`
    }<td>${stepBadge(step)}${
      error !== undefined && html` <span class="sr">${withoutHidden(error)}</span>`
    }</td><td class="number">${spentMs === undefined ? '' : durationText(spentMs)}</td></tr>`;
  }

  function bar({ startedAt, endedAt, state: stepState }: ShownStep): Html | undefined {
    if (startedAt === undefined) return undefined;
    const from = scale(startedAt - begin);
    const to = endedAt === undefined ? width : scale(endedAt - begin);
    const length = Math.max(to - from, shortest);
    const x = Math.min(from, width - length);
    return html`<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="${width}" height="${height}"/><rect class="${stepState}" x="${x.toFixed(1)}" width="${length.toFixed(1)}" height="${height}"/></svg>`;
  }
}
