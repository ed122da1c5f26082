import { pauseTurn } from '../../../foundation/pause-turn.ts';
import { byteText, countText, durationText, timeElement } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';
import { shownText } from '../../frame/shown-text.ts';
import { csvText } from './csv-text.ts';

/**
 * What a column holds: text from anywhere, the state of something, a count, a part of 1 with or without a bar, ms, bytes, or a moment (ms since
 * the epoch).
 */
export type ColumnKind = 'text' | 'state' | 'count' | 'share' | 'bar' | 'ms' | 'bytes' | 'time';

export interface Column {
  readonly name: string;
  readonly kind: ColumnKind;
}

export type Cell = string | number | undefined;

/** Figures, for a page and for a file. The first column names the row. */
export interface FigureTable {
  /** Name of its file, without the ending. */
  readonly name: string;
  readonly title: string;
  readonly columns: readonly Column[];
  readonly rows: ReadonlyArray<readonly Cell[]>;
  /** All rows, if {@link rows} are the first of them. A file has all. */
  readonly all?: { readonly count: number; readonly rows: () => Iterable<readonly Cell[]> };
}

const longestText = 400;
/** A page of all images by day would have megabytes. */
export const mostRows = 400;
const rowsAtOnce = 1000;
const dayForm = /^\d{4}-\d\d-\d\d(?: \d\d:\d\d)?$/;

/** Returns a table as a page shows it. */
export function tableHtml(
  { title, columns, rows, all }: FigureTable,
  empty = 'None in this range.',
): Html {
  const shown = rows.slice(0, mostRows);
  const count = all?.count ?? rows.length;
  if (rows.length === 0) return html`<p class="minor">${empty}</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title}"><table class="figures">
<thead><tr>${columns.map(({ name, kind }) => html`<th scope="col"${!isText(kind) && html` class="number"`}>${name}</th>`)}</tr></thead>
<tbody>${shown.map(row => html`<tr>${row.map((cell, at) => cellHtml(cell, columns[at]?.kind ?? 'text'))}</tr>`)}</tbody></table></div>
${count > shown.length && html`<p class="minor">These are the first ${countText(shown.length)} of ${countText(count)} rows. The file has all of them.</p>`}`;
}

/**
 * Yields a table as the text of a CSV file, a thousand rows at a time: other work runs in between. Units stand in its
 * head, and moments are in ISO 8601.
 */
export async function* tableFile({ columns, rows, all }: FigureTable): AsyncGenerator<string> {
  const units: Partial<Record<ColumnKind, string>> = { ms: ' (ms)', bytes: ' (bytes)' };
  const textOf = (some: readonly (readonly Cell[])[]) =>
    csvText(some.map(row => row.map((cell, column) => plain(cell, columns[column]?.kind))));
  yield csvText([columns.map(({ name, kind }) => `${name}${units[kind] ?? ''}`)]);
  let some: (readonly Cell[])[] = [];
  for (const row of all?.rows() ?? rows) {
    some.push(row);
    if (some.length < rowsAtOnce) continue;
    yield textOf(some);
    some = [];
    await pauseTurn();
  }
  if (some.length > 0) yield textOf(some);
}

function isText(kind: ColumnKind): boolean {
  return kind === 'text' || kind === 'state' || kind === 'time' || kind === 'bar';
}

function cellHtml(cell: Cell, kind: ColumnKind): Html {
  if (cell === undefined) return html`<td class="minor${!isText(kind) && ' number'}">–</td>`;
  if (kind === 'state')
    return html`<td><span class="badge ${badgeOf(String(cell))}">${cell}</span></td>`;
  if (typeof cell === 'string') {
    return html`<td${dayForm.test(cell) && html` class="day"`}>${shownText(cell, longestText)}</td>`;
  }
  if (kind === 'time') return html`<td class="day">${timeElement(cell)}</td>`;
  if (kind === 'bar') {
    const width = Math.min(100, cell * 100).toFixed(2);
    return html`<td><svg class="share" width="100%" height="12" aria-hidden="true"><rect class="rest" width="100%" height="12"/><rect class="bar" width="${width}%" height="12"/></svg>${numberText(cell, 'share')}</td>`;
  }
  return html`<td class="number">${numberText(cell, kind)}</td>`;
}

function badgeOf(state: string): string {
  if (state.startsWith('Fail')) return 'bad';
  return state.includes('failed') ? 'wait' : 'good';
}

function numberText(value: number, kind: ColumnKind): string {
  if (kind === 'ms') return durationText(value);
  if (kind === 'bytes') return byteText(value);
  return kind === 'share' ? `${(value * 100).toFixed(1)} %` : countText(value);
}

function plain(cell: Cell, kind: ColumnKind | undefined): string | number {
  if (cell === undefined) return '';
  if (typeof cell === 'string') return cell;
  if (kind === 'time') return new Date(cell).toISOString();
  return kind === 'share' || kind === 'bar' ? Number(cell.toFixed(4)) : Math.round(cell);
}
