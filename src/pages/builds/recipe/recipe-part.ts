import { listUploadedContext } from '../../../builds/index.ts';
import { type BuildPlan, recipeIn } from '../../../builds/plan/build-plan.ts';
import type { ContextEntry } from '../../../contexts/index.ts';
import { pauseTurn } from '../../../foundation/pause-turn.ts';
import type { ContentStore } from '../../../storage/content/index.ts';
import {
  byteText,
  countText,
  durationText,
  type Html,
  html,
  shownText,
  withoutHidden,
} from '../../frame/html.ts';
import type { Page } from '../../frame/page-layout.ts';
import { stepWords } from '../build-state.ts';
import type { RecipeLine, ShownRecipe } from './shown-recipe.ts';

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
<tbody>${shown.map((line, at) => lineRow(line, at + 1, isMeasured))}</tbody></table></div>`
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

function lineRow(
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

/** A part of the files of an uploaded build context. */
interface ContextFiles {
  readonly id: string;
  /** Number of files, directories and links. */
  readonly total: number;
  readonly bytes: number;
  /** Position of the first shown one, counted from 0. */
  readonly from: number;
  readonly entries: readonly ContextEntry[];
}

const filesAtOnce = 200;

/** Returns true for a build whose files can be listed. */
export function hasContextFiles(plan: BuildPlan): boolean {
  return recipeIn(plan)?.isUploaded === true;
}

/** Returns files of a build context by their position; undefined where they are not kept. Throws a `Fault`. */
export async function contextFilesOf(
  id: string,
  plan: BuildPlan,
  from: number,
  content: ContentStore,
): Promise<ContextFiles | undefined> {
  const { context, isUploaded } = recipeIn(plan) ?? {};
  if (context === undefined || !isUploaded) return undefined;
  const all = await listUploadedContext(content, context);
  let bytes = 0;
  for (const { size } of all) {
    bytes += size;
    await pauseTurn();
  }
  const begin = Math.min(from, Math.max(0, all.length - 1));
  return {
    id,
    total: all.length,
    bytes,
    from: begin,
    entries: all.slice(begin, begin + filesAtOnce),
  };
}

/** Returns the page with the files of a build context. */
export function contextFilesPage({ id, total, bytes, from, entries }: ContextFiles): Page {
  const link = (to: number, text: string) =>
    html` <a href="/view/builds/${id}/files?from=${to + 1}">${text}</a>`;
  const until = from + entries.length;
  return {
    title: 'Files of the build context',
    content: html`<h1>Files of the build context</h1>
<p class="minor id"><a href="/view/builds/${id}">Build <code>${id}</code></a></p>
<p class="pages">${total === 0 ? 'It has no files.' : html`${countText(from + 1)} to ${countText(until)} of ${countText(total)}, ${byteText(bytes)} in all`}${
      from > 0 && html`${link(0, 'First')}${link(Math.max(0, from - filesAtOnce), 'Earlier')}`
    }${until < total && link(until, 'Later')}</p>
<div class="wide"><table><thead><tr><th scope="col">Path</th><th scope="col" class="number">Size</th><th scope="col">Mode</th></tr></thead><tbody>${entries.map(fileRow)}</tbody></table></div>`,
  };
}

function fileRow({ path, kind, size, mode, target }: ContextEntry): Html {
  const name = html`<code>${shownText(path)}${kind === 'directory' && '/'}</code>`;
  return html`<tr><th scope="row">${name}${
    target !== undefined &&
    html` ${kind === 'link' ? 'hard link to' : '→'} <code>${shownText(target)}</code>`
  }</th><td class="number">${kind === 'file' && byteText(size)}</td><td><code>${mode.toString(8).padStart(4, '0')}</code></td></tr>`;
}
