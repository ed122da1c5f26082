import { scaleLinear } from 'd3-scale';
import { shortName, useCommands } from '../ask/use-commands.ts';
import {
  byteText,
  countText,
  durationText,
  type Html,
  html,
  timeElement,
  withoutHidden,
} from '../frame/html.ts';
import type { BuildView, Failure, ShownImage } from './build-view.ts';
import type { ShownStep } from './recipe/shown-recipe.ts';

const stateWords: Readonly<Record<BuildView['state'], readonly [string, string]>> = {
  queued: ['waiting', 'wait'],
  running: ['running', 'wait'],
  succeeded: ['succeeded', 'good'],
  failed: ['failed', 'bad'],
};

/** Returns the title of the tab: the state comes first, because a tab shows a few letters. */
export function buildTitle({ state, image }: Pick<BuildView, 'state' | 'image'>): string {
  const [word] = stateWords[state];
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}: build of ${shortName(image.name)}`;
}

/** Returns the state of a build and its result: the same for everyone who looks. */
export function statePart(view: BuildView): Html {
  const [word, kind] = stateWords[view.state];
  return html`<p data-title="${buildTitle(view)}"><span class="badge ${kind}" role="status">${word}</span> ${timesPart(view)}</p>
${queuePart(view)}${failurePart(view)}${view.state === 'succeeded' && resultPart(view.image, view.id)}`;
}

/** Returns the steps of a build, which change while it runs. */
export function stepsPart(view: BuildView, now: number): Html {
  return html`<h2 id="steps">Steps</h2>
${stepsTable(view, now)}`;
}

function timesPart({ createdAt, startedAt, finishedAt }: BuildView): Html {
  const waited = startedAt === undefined ? undefined : startedAt - createdAt;
  return html`requested ${timeElement(createdAt)}${
    waited !== undefined && waited >= 1000 && html`, waited ${durationText(waited)}`
  }${startedAt !== undefined && finishedAt === undefined && html`, running since ${timeElement(startedAt)}`}${
    finishedAt !== undefined && html`, took ${durationText(finishedAt - (startedAt ?? createdAt))}`
  }`;
}

function queuePart({ queue }: BuildView): Html | undefined {
  if (!queue) return undefined;
  const { waitsFor, before, all } = queue;
  const place =
    before === 0
      ? 'It goes before all other waiting builds.'
      : `${countText(before)} of ${countText(all)} waiting builds go before it. Callers take turns; those with a login go first.`;
  return html`<p class="notice">This build waits for ${waitsFor}. ${all > 1 && place}</p>`;
}

function failurePart({ failure, state }: BuildView): Html | undefined {
  return failure && state === 'failed' ? failureBox(failure) : undefined;
}

/** Returns why a build failed, with the last lines of its failed step. */
export function failureBox({ words, output }: Failure): Html {
  return html`<div class="failure" role="alert"><strong>Why it failed:</strong> ${withoutHidden(words)}${
    output !== '' && html`\n<pre>${withoutHidden(output)}</pre>`
  }</div>`;
}

function resultPart(image: ShownImage, id: string): Html {
  const { name, digest, platforms, format, documents } = image;
  const address = (document: string) => {
    const isBill = document === 'spdx' || document === 'cyclonedx';
    return `/v1alpha1/builds/${id}/${isBill ? 'sbom' : 'lock'}?format=${document}`;
  };
  const links = (names: readonly string[]) =>
    names.map((one, at) => html`${at > 0 && ', '}<a href="${address(one)}">${one}</a>`);
  const locks = documents.filter(one => !one.startsWith('spdx') && one !== 'cyclonedx');
  const bills = documents.filter(one => !locks.includes(one));
  return html`<h2>Result</h2>
<div class="copy"><pre tabindex="0">${name}</pre></div>
<dl class="facts"><dt>Format</dt><dd>${format === 'sif' ? 'Singularity (SIF)' : 'Docker'}</dd>
${digest !== undefined && html`<dt>Digest</dt><dd><code>${digest}</code></dd>`}
${platforms.map(({ platform, layers }) => {
  const bytes = layers.reduce((sum, { size }) => sum + size, 0);
  return html`<dt>${platform}</dt><dd>${byteText(bytes)} in ${layers.length} ${layers.length === 1 ? 'layer' : 'layers'}</dd>`;
})}
${locks.length > 0 && html`<dt>Lock file</dt><dd>${links(locks)}</dd>`}
${bills.length > 0 && html`<dt>Bill of materials</dt><dd>${links(bills)}</dd>`}</dl>
<details><summary>Commands to use it</summary>${useCommands(image).map(
    ({ client, text, note }) =>
      html`<h3>${client}</h3>${note !== undefined && html`<p class="hint">${note}</p>`}<div class="copy"><pre tabindex="0">${text}</pre></div>`,
  )}</details>
${platforms.length > 0 && layersPart(platforms)}`;
}

function layersPart(platforms: ShownImage['platforms']): Html {
  const nameOf = stepNames(
    platforms.flatMap(({ layers }) => layers.map(({ by = '' }) => ({ name: by }))),
  );
  return html`<details><summary>Layers</summary>${platforms.map(
    ({ platform, layers }) => html`<h3>${platform}</h3>
<div class="wide"><table><thead><tr><th scope="col" class="number">Size</th><th scope="col">Made by</th><th scope="col">Digest</th></tr></thead><tbody>${layers.map(
      ({ digest, size, by }) =>
        html`<tr><td class="number">${byteText(size)}</td><td><code>${nameOf(by ?? '')}</code></td><td><code>${digest.slice(0, 19)}</code></td></tr>`,
    )}</tbody></table></div>`,
  )}</details>`;
}

export const stepWords: Readonly<Record<ShownStep['state'], string>> = {
  running: 'running',
  done: 'done',
  cached: 'cached',
  failed: 'failed',
  cancelled: 'cancelled',
};

const stepBadges = { failed: 'bad', running: 'wait', done: 'good', cached: '', cancelled: '' };

/** Returns the state of a step as a word in its colour. */
export function stepBadge({ state }: Pick<ShownStep, 'state'>): Html {
  return html`<span class="badge ${stepBadges[state]}">${stepWords[state]}</span>`;
}

const leastOfName = 80;
const mostOfNames = 30_000;

/** Returns the names of steps, shorter where there are many steps: they are whatever a recipe says. */
export function stepNames(steps: readonly Pick<ShownStep, 'name'>[]): (name: string) => string {
  const most = Math.max(leastOfName, Math.floor(mostOfNames / Math.max(steps.length, 1)));
  return name => withoutHidden(name.length > most ? `${name.slice(0, most)}…` : name);
}

// Units across the picture; it is stretched to the width of its cell.
const tableWidth = 1000;
const barHeight = 12;
/** The shortest bar that one can see, in units. */
const shortestBar = 4;

/** Returns the steps of a build as a table, with a time line in each row. Steps side by side ran at the same time. */
function stepsTable(view: BuildView, now: number): Html {
  const { steps, isFromLog, state, id } = view;
  if (steps.length === 0) {
    const words = state === 'queued' || state === 'running' ? 'No step has begun.' : 'No step ran.';
    return html`<p class="minor">${words}</p>`;
  }
  const nameOf = stepNames(steps);
  const begin = Math.min(...steps.map(({ startedAt }) => startedAt ?? Number.POSITIVE_INFINITY));
  const end = Math.max(...steps.map(({ endedAt, startedAt }) => endedAt ?? startedAt ?? 0));
  const isRunning = steps.some(step => step.state === 'running');
  const scale = scaleLinear(
    [0, Math.max(isRunning ? now - begin : end - begin, 1)],
    [0, tableWidth],
  );
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
    const to = endedAt === undefined ? tableWidth : scale(endedAt - begin);
    const length = Math.max(to - from, shortestBar);
    const x = Math.min(from, tableWidth - length);
    return html`<svg viewBox="0 0 ${tableWidth} ${barHeight}" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="${tableWidth}" height="${barHeight}"/><rect class="${stepState}" x="${x.toFixed(1)}" width="${length.toFixed(1)}" height="${barHeight}"/></svg>`;
  }
}

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

const mostSteps = 200;

/** Returns the builds of one image side by side: how long each took, and each of their steps. */
export function comparePart(builds: readonly ComparedBuild[], own: string): Html | undefined {
  if (builds.length < 2) return undefined;
  const longest = Math.max(1, ...builds.map(({ tookMs = 0 }) => tookMs));
  return html`<h2>Builds of the same image</h2>
<div class="wide"><table class="steps"><thead><tr><th scope="col">Requested</th><th scope="col" class="span">Time</th><th scope="col">State</th><th scope="col" class="number">Duration</th></tr></thead><tbody>${builds.map(
    ({ id, createdAt, state, tookMs }) => {
      const length = ((tookMs ?? 0) / longest) * tableWidth;
      const label = timeElement(createdAt);
      return html`<tr${id === own && html` class="own"`}><th scope="row">${
        id === own ? html`${label} (this one)` : html`<a href="/view/builds/${id}">${label}</a>`
      }</th><td class="span"><svg viewBox="0 0 ${tableWidth} 12" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="${tableWidth}" height="12"/><rect class="${state === 'failed' ? 'failed' : 'done'}" width="${length.toFixed(1)}" height="12"/></svg></td><td>${state}</td><td class="number">${tookMs !== undefined && durationText(tookMs)}</td></tr>`;
    },
  )}</tbody></table></div>${comparedSteps(builds, own)}`;
}

/** Steps are the same where their names are: their numbers depend on the order in which they began. */
function comparedSteps(builds: readonly ComparedBuild[], own: string): Html | undefined {
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
        html`<tr><th scope="row">${withoutHidden(name)}</th>${columns.map(column => comparedCell(column.get(name)))}</tr>`,
    )}</tbody></table></div></details>`;
}

function comparedCell(step: ShownStep | undefined): Html {
  if (!step) return html`<td class="number minor">–</td>`;
  const { state, spentMs } = step;
  const isTimed = state === 'done' && spentMs !== undefined;
  return html`<td class="number ${state}">${isTimed ? durationText(spentMs) : stepWords[state]}</td>`;
}
