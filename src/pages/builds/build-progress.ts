import type { StepProgress } from '../../builds/index.ts';
import type { PartProgress } from '../../foundation/part-progress.ts';
import {
  byteText,
  countText,
  durationText,
  type Html,
  html,
  withoutHidden,
} from '../frame/html.ts';
import type { BuildView } from './build-view.ts';
import type { ShownStep } from './recipe/shown-recipe.ts';

// Rows that a page shows; the rest is counted.
const mostSteps = 6;
const mostParts = 12;
const mostOfName = 120;

/**
 * Returns how far a running build is: a row for each running step and for each of its downloads, as text and as a bar where the end
 * is known. Nothing for a build that does not run.
 */
export function progressPart(
  { state, steps, progress, startedAt, id }: BuildView,
  now: number,
): Html | undefined {
  if (state !== 'running') return undefined;
  const running = steps.filter(step => step.state === 'running');
  const shown = running.slice(0, mostSteps);
  const ended = steps.length - running.length;
  let room = mostParts;
  const rows = shown.map(step => {
    const known = step.number === undefined ? undefined : progress.get(step.number);
    const parts = known?.parts ?? [];
    const visible = parts.slice(0, room);
    room -= visible.length;
    return html`${stepRow(step, known, id, now)}${visible.map(partRow)}${leftRow(parts.length - visible.length, known?.hasMore === true)}`;
  });
  const time = startedAt === undefined ? '' : `, after ${secondsText(now - startedAt)}`;
  return html`<section class="progress" aria-labelledby="progress-title"><h2 id="progress-title">Progress</h2>
<p class="minor">${countText(ended)} ${ended === 1 ? 'step has' : 'steps have'} ended, ${countText(running.length)} ${running.length === 1 ? 'runs' : 'run'}${time}.</p>
${
  rows.length > 0 &&
  html`<ul>${rows}${running.length > shown.length && html`<li class="minor">${countText(running.length - shown.length)} more steps run.</li>`}</ul>`
}</section>`;
}

function stepRow(
  { number, name, startedAt }: ShownStep,
  known: StepProgress | undefined,
  id: string,
  now: number,
): Html {
  const label = shortName(name);
  const sum = known && sumOf(known);
  const facts = [
    sum?.share !== undefined && percentText(sum.share),
    known?.all?.label.replace(' / ', ' of '),
    sum !== undefined && bytesText(sum),
    startedAt !== undefined && secondsText(now - startedAt),
  ];
  return html`<li class="of-step"><span class="name">${
    number !== undefined && html`<a href="/view/builds/${id}?step=${number}#log">#${number}</a> `
  }${label}</span>${bar(sum?.share, label)}<span class="amount">${textOf(facts)}</span></li>`;
}

function partRow({ id, share, bytes, totalBytes, seconds }: PartProgress): Html {
  const label = shortName(id);
  const facts = [
    share !== undefined && percentText(share),
    bytesText({ bytes, totalBytes }),
    seconds !== undefined && secondsText(seconds * 1000),
  ];
  return html`<li><span class="name">${label}</span>${bar(share, label)}<span class="amount">${textOf(facts)}</span></li>`;
}

function leftRow(count: number, hasMore: boolean): Html | false {
  return (
    (count > 0 || hasMore) &&
    html`<li class="minor">${countText(count)}${hasMore && ' or more'} others are not shown.</li>`
  );
}

interface Sum {
  readonly bytes: number;
  readonly totalBytes: number;
  readonly share: number | undefined;
}

/** Returns how far a step is: by its packages, or by the bytes of its parts as far as they are known. */
function sumOf({ all, parts, doneBytes }: StepProgress): Sum {
  if (all) return all;
  const known = parts.filter(({ totalBytes }) => totalBytes > 0);
  const bytes = parts.reduce((sum, part) => sum + part.bytes, doneBytes);
  const totalBytes = known.reduce((sum, part) => sum + part.totalBytes, doneBytes);
  const isKnown = known.length > 0 && known.length === parts.length;
  return {
    bytes,
    totalBytes: isKnown ? totalBytes : 0,
    share: isKnown ? Math.min(1, bytes / totalBytes) : undefined,
  };
}

/** The text beside it says the same. */
function bar(share: number | undefined, label: string): Html {
  if (share === undefined) return html`<span class="no-bar"></span>`;
  return html`<progress max="100" value="${wholePercent(share)}" aria-label="${label}"></progress>`;
}

function wholePercent(share: number): number {
  return Math.floor(share * 100);
}

function percentText(share: number): string {
  return `${wholePercent(share)} %`;
}

function bytesText({ bytes, totalBytes }: Pick<Sum, 'bytes' | 'totalBytes'>): string | false {
  if (bytes === 0 && totalBytes === 0) return false;
  return totalBytes > 0 ? `${byteText(bytes)} of ${byteText(totalBytes)}` : byteText(bytes);
}

/** Whole seconds: a page that shows more changes all the time. */
function secondsText(ms: number): string {
  return durationText(Math.max(1, Math.floor(ms / 1000)) * 1000).replace(/\.\d s$/, ' s');
}

function textOf(facts: readonly (string | false | undefined)[]): string {
  return facts.filter(fact => fact !== undefined && fact !== false).join(' · ');
}

/** Names come from recipes and channels. */
function shortName(name: string): string {
  return withoutHidden(name.length > mostOfName ? `${name.slice(0, mostOfName)}…` : name);
}
