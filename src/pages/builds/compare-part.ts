import { durationText, timeElement, withoutHidden } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import type { ShownStep } from './shown-step.ts';
import { stepWords } from './steps-table.ts';

/** A build of the same image, beside the one of the page. */
export interface ComparedBuild {
  readonly id: string;
  readonly createdAt: number;
  readonly state: string;
  /** Run time in ms; undefined for an unfinished build. */
  readonly tookMs: number | undefined;
  /** Its steps; empty for builds that are too old to be compared by their steps. */
  readonly steps: readonly ShownStep[];
}

const width = 1000;
const mostSteps = 200;

/** Returns the builds of one image side by side: how long each took, and each of their steps. */
export function comparePart(builds: readonly ComparedBuild[], own: string): Html | undefined {
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
  )}</tbody></table></div>${stepsPart(builds, own)}`;
}

/** Steps are the same where their names are: their numbers depend on the order in which they began. */
function stepsPart(builds: readonly ComparedBuild[], own: string): Html | undefined {
  const shown = builds.filter(({ steps }) => steps.length > 0);
  const steps = shown.find(({ id }) => id === own)?.steps ?? [];
  if (shown.length < 2 || steps.length === 0) return undefined;
  const columns = shown.map(({ steps: all }) => new Map(all.map(step => [step.name, step])));
  return html`<details><summary>Duration by step</summary><div class="wide"><table class="compared"><thead><tr><th scope="col">Step</th>${shown.map(
    ({ id, createdAt }) =>
      html`<th scope="col" class="number">${timeElement(createdAt)}${id === own && ' (this one)'}</th>`,
  )}</tr></thead><tbody>${steps
    .slice(0, mostSteps)
    .map(
      ({ name }) =>
        html`<tr><th scope="row">${withoutHidden(name)}</th>${columns.map(column => cell(column.get(name)))}</tr>`,
    )}</tbody></table></div></details>`;
}

function cell(step: ShownStep | undefined): Html {
  if (!step) return html`<td class="number minor">–</td>`;
  const { state, spentMs } = step;
  const isTimed = state === 'done' && spentMs !== undefined;
  return html`<td class="number ${state}">${isTimed ? durationText(spentMs) : stepWords[state]}</td>`;
}
