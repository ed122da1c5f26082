import { pauseTurn } from '../../foundation/pause-turn.ts';
import {
  byteText,
  countText,
  durationText,
  type Html,
  html,
  shownText,
  timeElement,
} from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import type { DayRange } from './usage-data.ts';

/** One page of figures. */
export interface UsageTab<Deps> {
  readonly path: string;
  readonly title: string;
  /** False for figures of this moment. */
  readonly hasDays: boolean;
  /** The names of its tables: each is also a file. */
  readonly tables: readonly string[];
  read(range: DayRange, deps: Deps): Promise<TabContent>;
}

interface TabContent {
  /** What stands above the range: the state of this moment. */
  readonly now?: Html;
  readonly sections: readonly Section[];
  readonly more?: Html;
}

/** A chart with its table. */
export interface Section {
  readonly title: string;
  readonly intro?: Html | undefined;
  readonly chart?: Html | undefined;
  readonly table: FigureTable;
  /** What stands in place of an empty table. Default: none in this range. */
  readonly empty?: string;
  /** True for a long table below a chart, which opens on demand. */
  readonly isFolded?: boolean;
}

/**
 * Returns the page of a tab, with links to the others that keep the range. Other work runs between two sections, because
 * the tables of a year are long.
 */
export async function tabPage(
  tab: Pick<UsageTab<never>, 'path' | 'title' | 'hasDays'>,
  tabs: ReadonlyArray<Pick<UsageTab<never>, 'path' | 'title'>>,
  range: DayRange,
  { now, sections, more }: TabContent,
): Promise<Page> {
  const query = `from=${range.from}&to=${range.to}`;
  const parts: Html[] = [];
  for (const section of sections) {
    parts.push(sectionPart(section, query));
    await pauseTurn();
  }
  return {
    title: tab.title === 'Overview' ? 'Usage' : `Usage: ${tab.title.toLowerCase()}`,
    content: html`<h1>Usage</h1>
<nav class="usage-tabs" aria-label="Usage">${tabs.map(({ path, title }) => html`<a href="${path}?${query}"${path === tab.path && html` aria-current="page"`}>${title}</a>`)}</nav>
${now}
${tab.hasDays && rangePart(tab.path, range)}
${parts}
${more}`,
  };
}

function rangePart(path: string, { from, to }: DayRange): Html {
  return html`<form class="range" method="get" action="${path}">
<label>From <input type="date" name="from" value="${from}"></label>
<label>To <input type="date" name="to" value="${to}"></label>
<button>Show</button>
</form>
<p class="hint">Days are those of UTC, at most 366. Figures are kept for 400 days.</p>`;
}

function sectionPart(section: Section, query: string): Html {
  const { title, intro, chart, table, empty, isFolded } = section;
  return html`<section class="figure"><h2>${title}</h2>
${intro}
${table.rows.length > 0 && chart}
${isFolded && table.rows.length > 0 ? html`<details><summary>${table.title} as a table</summary>${tableHtml(table)}</details>` : tableHtml(table, empty)}
${table.rows.length > 0 && html`<p><a href="/view/usage/${table.name}.csv?${query}">${table.title} (CSV)</a></p>`}
</section>`;
}

/**
 * What a column holds: text from anywhere, the state of something, a count, a part of 1 with or without a bar, ms, bytes, or a moment (ms since
 * the epoch).
 */
type ColumnKind = 'text' | 'state' | 'count' | 'share' | 'bar' | 'ms' | 'bytes' | 'time';

export interface Column {
  readonly name: string;
  readonly kind: ColumnKind;
}

export type Cell = string | number | undefined;

/** Figures, for a page and for a file. The first column names the row. */
interface FigureTable {
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
function tableHtml(
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
    csvText(some.map(row => row.map((cell, column) => plainCell(cell, columns[column]?.kind))));
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

function plainCell(cell: Cell, kind: ColumnKind | undefined): string | number {
  if (cell === undefined) return '';
  if (typeof cell === 'string') return cell;
  if (kind === 'time') return new Date(cell).toISOString();
  return kind === 'share' || kind === 'bar' ? Number(cell.toFixed(4)) : Math.round(cell);
}

/** Returns rows as a CSV file (RFC 4180). Programs for spreadsheets do not run any of its cells as a formula. */
export function csvText(rows: ReadonlyArray<readonly (string | number)[]>): string {
  return rows.map(row => `${row.map(csvCell).join(',')}\r\n`).join('');
}

function csvCell(value: string | number): string {
  const text = String(value);
  const safe = typeof value === 'string' && /^\s*[=+\-@]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
