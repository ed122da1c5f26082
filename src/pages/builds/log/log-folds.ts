import type { LogLine } from '../../../builds/index.ts';
import { countText, durationText } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import type { BuildView } from '../build-view.ts';
import type { ShownStep } from '../shown-step.ts';
import { stepBadge, stepNames } from '../steps-table.ts';
import { linesAtOnce, linesPart } from './shown-lines.ts';

/** A step of the log; its lines are there if it is unfolded. */
export interface Fold {
  readonly step: ShownStep;
  /** Number of its lines. */
  readonly total: number;
  /** The last of its lines; undefined for one that is folded. */
  readonly lines: readonly LogLine[] | undefined;
}

// Steps that are unfolded at first: those that run, or have failed.
const mostOpen = 6;

/**
 * Returns the steps of a log.
 *
 * @param wanted number of a step to unfold
 */
export async function foldsOf(
  { steps, lines }: Pick<BuildView, 'steps' | 'lines'>,
  wanted: number | undefined,
): Promise<readonly Fold[]> {
  const folds: Fold[] = [];
  let left = mostOpen;
  for (const step of steps) {
    const { number, state } = step;
    if (number === undefined) continue;
    const total = lines?.countOf(number) ?? 0;
    const isOpen = number === wanted || ((state === 'failed' || state === 'running') && left > 0);
    if (isOpen) left -= 1;
    const from = Math.max(0, total - linesAtOnce);
    folds.push({
      step,
      total,
      lines: isOpen ? ((await lines?.read(from, total, number)) ?? []) : undefined,
    });
  }
  return folds;
}

/** Returns the log of a build by its steps. */
export function foldsPart(
  { id, state }: Pick<BuildView, 'id' | 'state'>,
  folds: readonly Fold[],
): Html {
  const isOver = state === 'succeeded' || state === 'failed';
  const open = folds.filter(({ lines }) => lines).length;
  const nameOf = stepNames(folds.map(({ step }) => step));
  const empty: ShownStep = {
    number: 0,
    name: '',
    state: 'running',
    startedAt: undefined,
    endedAt: undefined,
    spentMs: undefined,
    error: undefined,
  };
  return html`${folds.length === 0 && html`<p class="minor">No step has lines.</p>`}
<div id="folds" data-build="${id}"${!isOver && html` data-live`}>${folds.map(fold => foldPart(id, fold, nameOf, 1 / open))}</div>
<template id="fold">${foldPart(id, { step: empty, total: 0, lines: undefined }, nameOf, 1)}</template>`;
}

/** @param share see {@link linesPart} */
function foldPart(
  id: string,
  { step, total, lines }: Fold,
  nameOf: (name: string) => string,
  share: number,
): Html {
  const { number, name, spentMs } = step;
  const all = html`<a href="/view/builds/${id}?step=${number}#log">All ${countText(total)} lines of this step</a>`;
  return html`<details class="log-step" id="step-${number}" data-step="${number}" data-total="${total}"${lines && html` open`}><summary><span class="number">#${number}</span> <span class="name">${nameOf(name)}</span> ${stepBadge(step)} <span class="number took">${spentMs !== undefined && durationText(spentMs)}</span></summary>
<div class="log" tabindex="0" role="region" aria-label="Lines of step ${number}"><div class="sheet">${lines && linesPart(lines, share)}</div></div>
<p class="minor">${
    lines
      ? total > lines.length && all
      : html`<a href="/view/builds/${id}?view=steps&open=${number}#step-${number}">Unfold its ${countText(total)} lines</a>`
  }</p></details>`;
}
