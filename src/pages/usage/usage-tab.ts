import { pauseTurn } from '../../foundation/pause-turn.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { type FigureTable, tableHtml } from './tables/figure-table.ts';
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

export interface TabContent {
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
