import { byteText, durationText, withoutHidden } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import { stepWords } from '../steps-table.ts';
import type { RecipeLine } from './recipe-line.ts';
import type { ShownRecipe } from './shown-recipe.ts';

// Longer recipes are in the response of the API.
const mostLines = 600;
const mostChars = 1000;
const mostOthers = 20;
const mostOtherChars = 20_000;
/** Characters of all lines together, and of all other texts together. */
const mostTogether = 60_000;

/** Returns the recipe of a build, with the time, cache state and layer size of each line beside it. */
export function recipePart({ title, lines, facts, others = [] }: ShownRecipe): Html {
  const isMeasured = lines.some(({ step }) => step !== undefined);
  const shown = withRoom(lines.slice(0, mostLines), ({ text }) => Math.min(text.length, mostChars));
  const shownOthers = withRoom(others.slice(0, mostOthers), ([, text]) =>
    Math.min(text.length, mostOtherChars),
  );
  return html`<h2>${title}</h2>
<dl class="facts">${facts.map(([name, text]) => html`<dt>${name}</dt><dd>${withoutHidden(text)}</dd>`)}</dl>
${
  lines.length > 0 &&
  html`<div class="recipe" tabindex="0" role="region" aria-label="${title}"><table>
<thead class="sr"><tr><th scope="col">Line</th><th scope="col">Text</th>${isMeasured && html`<th scope="col">Time</th><th scope="col">Layer</th>`}</tr></thead>
<tbody>${shown.map((line, at) => row(line, at + 1, isMeasured))}</tbody></table></div>`
}${lines.length > shown.length && html`<p class="minor">The recipe has ${lines.length} lines: the first ${shown.length} are shown.</p>`}${shownOthers.map(otherPart)}${
  others.length > shownOthers.length &&
  html`<p class="minor">${others.length - shownOthers.length} more files are not shown.</p>`
}`;
}

/** Returns the first entries that have room together. */
function withRoom<T>(entries: readonly T[], sizeOf: (entry: T) => number): readonly T[] {
  let left = mostTogether;
  const end = entries.findIndex(entry => {
    left -= sizeOf(entry);
    return left < 0;
  });
  return end < 0 ? entries : entries.slice(0, end);
}

function otherPart([title, text]: readonly [string, string]): Html {
  const isLong = text.length > mostOtherChars;
  return html`<details><summary>${withoutHidden(title)}</summary><pre tabindex="0">${withoutHidden(text.slice(0, mostOtherChars))}${isLong && '…'}</pre></details>`;
}

function row(
  { text, step, layerBytes, isFailed }: RecipeLine,
  number: number,
  isMeasured: boolean,
): Html {
  const shown = text.length > mostChars ? `${text.slice(0, mostChars)}…` : text;
  const time =
    step?.state === 'done' && step.spentMs !== undefined
      ? durationText(step.spentMs)
      : step && stepWords[step.state];
  return html`<tr${isFailed && html` class="failed"`}><td class="number">${number}</td><td class="text"><code>${withoutHidden(shown)}</code>${
    isFailed && html` <span class="badge bad">failed here</span>`
  }</td>${
    isMeasured &&
    html`<td class="number ${step?.state ?? ''}">${time}</td><td class="number">${layerBytes !== undefined && byteText(layerBytes)}</td>`
  }</tr>`;
}
