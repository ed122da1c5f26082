import Anser from 'anser';
import type { LogLine } from '../../builds/index.ts';
import { countText, durationText, type Html, html, withoutHidden } from '../frame/html.ts';
import { stepBadge, stepNames } from './build-state.ts';
import type { BuildView } from './build-view.ts';
import type { ShownStep } from './recipe/shown-recipe.ts';

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

/** A step of the log; its lines are there if it is unfolded. */
interface Fold {
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

/** Lines of a page of the log, and the most lines that a browser fetches at once. */
export const linesAtOnce = 300;
const mostOfLine: LineLimits = { chars: 2000, colours: 40 };
// A page has several such parts at most. A browser shows them without a delay.
const mostOfAll: LineLimits = { chars: 80_000, colours: 2000 };

/**
 * Returns lines of a log; their numbers are links to them. Where they are very long together, each shows less of itself.
 *
 * @param share part of the room for lines that these may take, from 0 to 1
 */
export function linesPart(lines: readonly LogLine[], share = 1): Html {
  const limits: LineLimits = {
    chars: fairMost(lines, ({ text }) => text.length, mostOfLine.chars, mostOfAll.chars * share),
    colours: fairMost(lines, coloursIn, mostOfLine.colours, mostOfAll.colours * share),
  };
  return html`${lines.map(line => html`<div class="line${kindOf(line.text)}" id="L${line.number}"${stepIn(line)}><a href="?line=${line.number}#L${line.number}">${line.number}</a><span>${shownLine(line, limits)}</span></div>`)}`;
}

/** Scripts find the lines of a step by its number. */
function stepIn({ text }: LogLine): Html | undefined {
  const [, step] = /^#(\d{1,6}) /.exec(text) ?? [];
  return step === undefined ? undefined : html` data-step="${step}"`;
}

function kindOf(text: string): string {
  const [, word] = /^#\d+ (ERROR|WARN|CANCELED)\b|^The build failed:/.exec(text) ?? [];
  if (word === 'WARN') return ' warn';
  return word !== undefined || text.startsWith('The build failed:') ? ' bad' : '';
}

function shownLine(line: LogLine, limits: LineLimits): Html {
  const isLong = line.isCut || line.text.length > limits.chars;
  return html`${colouredText(line, limits)}${isLong && '… (the whole line is in the download)'}`;
}

/** Counts the sequences for colours: at most one more than a line shows. */
function coloursIn({ coloured }: LogLine): number {
  let count = 0;
  for (
    let at = coloured.indexOf('\u001b');
    at >= 0 && count < mostOfLine.colours;
    at = coloured.indexOf('\u001b', at + 1)
  ) {
    count += 1;
  }
  return count;
}

/** Returns how much each line may show at most, so that all together stay below a limit. */
function fairMost(
  lines: readonly LogLine[],
  sizeOf: (line: LogLine) => number,
  mostOfOne: number,
  mostTogether: number,
): number {
  const sizes = lines.map(sizeOf);
  const sumOf = (most: number) => sizes.reduce((sum, size) => sum + Math.min(size, most), 0);
  let most = mostOfOne;
  while (most >= 1 && sumOf(most) > mostTogether) most = Math.floor(most / 2);
  return most;
}

// The style sheet has a readable colour for each, for light and dark.
const palette: readonly (readonly [string, number, number, number])[] = [
  ['black', 0, 0, 0],
  ['red', 187, 0, 0],
  ['green', 0, 187, 0],
  ['yellow', 187, 187, 0],
  ['blue', 0, 0, 187],
  ['magenta', 187, 0, 187],
  ['cyan', 0, 187, 187],
  ['white', 187, 187, 187],
  ['grey', 85, 85, 85],
  ['red', 255, 85, 85],
  ['green', 85, 255, 85],
  ['yellow', 255, 255, 85],
  ['blue', 85, 85, 255],
  ['magenta', 255, 85, 255],
  ['cyan', 85, 255, 255],
  ['white', 255, 255, 255],
];

const decorationClasses: Readonly<Partial<Record<Anser.DecorationName, string>>> = {
  bold: 't-bold',
  italic: 't-italic',
  underline: 't-line',
  strikethrough: 't-struck',
};

/** How much of a line is shown. */
interface LineLimits {
  /** Characters; the rest is cut. */
  readonly chars: number;
  /** Changes of colour: each is an element. The rest of the line has no colours. */
  readonly colours: number;
}

/**
 * Returns a line of a log with its colours as classes: no text is hidden, and every colour is readable on its ground.
 */
function colouredText(
  { text: plain, coloured }: Pick<LogLine, 'text' | 'coloured'>,
  { chars, colours }: LineLimits,
): Html {
  if (!coloured.includes('\u001b')) return html`${withoutHidden(plain.slice(0, chars))}`;
  let done = 0;
  const cut = (text: string) => {
    const part = text.slice(0, chars - done);
    done += part.length;
    return withoutHidden(part);
  };
  const end = endOfColours(coloured, colours);
  // Only what is shown is read: a line may change its colour with each character.
  const pieces = Anser.ansiToJson(coloured.slice(0, end), { json: true, remove_empty: true });
  return html`${pieces.map(piece => {
    const text = cut(piece.content);
    if (text === '') return undefined;
    const classes = classesOf(piece);
    return classes === '' ? text : html`<span class="${classes}">${text}</span>`;
  })}${cut(plain.slice(done))}`;
}

/** Returns the position of the sequence after so many others. */
function endOfColours(coloured: string, most: number): number {
  let end = coloured.indexOf('\u001b');
  for (let count = 0; count < most && end >= 0; count += 1)
    end = coloured.indexOf('\u001b', end + 1);
  return end < 0 ? coloured.length : end;
}

function classesOf({ fg, bg, decorations }: Anser.AnserJsonEntry): string {
  const isReversed = decorations.includes('reverse');
  const [front, ground] = isReversed ? [bg, fg] : [fg, bg];
  // Text on a coloured ground has the colour of the page: the same contrast as coloured text on the page.
  const colour = ground ? `on-${nameOf(ground)}` : isReversed ? 'on-text' : undefined;
  const own = front ? `t-${nameOf(front)}` : decorations.includes('dim') ? 't-grey' : undefined;
  const classes = [colour ?? own, ...decorations.map(name => decorationClasses[name])];
  return [...new Set(classes)].filter(name => name !== undefined).join(' ');
}

/** Returns the name of the nearest colour of a palette that is readable in light and dark. */
function nameOf(rgb: string): string {
  const [red = 0, green = 0, blue = 0] = rgb.split(',').map(Number);
  let [nearest, least] = ['', Number.POSITIVE_INFINITY];
  for (const [name, ownRed, ownGreen, ownBlue] of palette) {
    const away = (ownRed - red) ** 2 + (ownGreen - green) ** 2 + (ownBlue - blue) ** 2;
    if (away < least) [nearest, least] = [name, away];
  }
  return nearest;
}
